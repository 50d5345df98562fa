#include "tests/parity/hostile/hostile_backend.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>

#include "runtime/base/digest.hpp"
#include "tests/parity/hostile/hostile_device.hpp"
#include "tests/parity/hostile/hostile_operations.hpp"

namespace gpunode::hostile {
namespace {

class HostileMemory final : public tensor::Memory {
 public:
  explicit HostileMemory(std::shared_ptr<HostileDevice> shared) : shared_(std::move(shared)) {}
  const tensor::Device& device() const override { return device_; }
  Result<void*> allocate(std::size_t bytes) override { return shared_->window().allocate(bytes); }
  void release(void* data, std::size_t bytes) override { shared_->release(data, bytes); }

 private:
  std::shared_ptr<HostileDevice> shared_;
  tensor::Device device_{tensor::DeviceKind::cuda, "hostile device"};
};

// Ordinary memory that stays where it is as long as the device, as copies may come late.
class PageLockedMemory final : public tensor::Memory {
 public:
  explicit PageLockedMemory(std::uint64_t budget_bytes) : budget_(budget_bytes) {}
  const tensor::Device& device() const override { return device_; }
  Result<void*> allocate(std::size_t bytes) override {
    std::lock_guard lock(mutex_);
    if (bytes > budget_ - held_) return {ErrorCode::out_of_memory, "page-locked memory"};
    held_ += bytes;
    pieces_.push_back(Piece{std::make_unique<std::byte[]>(bytes + kAlignment), bytes});
    void* data = pieces_.back().bytes.get();
    std::size_t room = bytes + kAlignment;
    return std::align(kAlignment, bytes, data, room);
  }
  void release(void*, std::size_t) override {}
  std::uint64_t held_bytes() const {
    std::lock_guard lock(mutex_);
    return held_;
  }
  bool contains(const void* data) const {
    std::lock_guard lock(mutex_);
    return std::ranges::any_of(pieces_, [&](const Piece& piece) {
      return data >= piece.bytes.get() && data < piece.bytes.get() + piece.size + kAlignment;
    });
  }

 private:
  static constexpr std::size_t kAlignment = 64;
  struct Piece {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size;
  };
  const std::uint64_t budget_;
  std::uint64_t held_ = 0;
  mutable std::mutex mutex_;
  std::vector<Piece> pieces_;
  tensor::Device device_{tensor::DeviceKind::cpu, "page-locked memory"};
};

struct HostileWork final : ops::NotedWork {
  std::vector<NotedCall> calls;
};

class Backend final : public HostileBackend {
 public:
  explicit Backend(std::shared_ptr<HostileDevice> shared)
      : shared_(std::move(shared)),
        memory_(std::make_shared<HostileMemory>(shared_)),
        staging_memory_(std::make_shared<PageLockedMemory>(shared_->options().memory_bytes)),
        capabilities_(shared_->cpu().capabilities()),
        operations_(late_operations(shared_->arithmetic())) {
    capabilities_.memory_bytes = shared_->options().memory_bytes;
    capabilities_.host_accessible = false;
    capabilities_.notes_work = shared_->options().notes_work;
    capabilities_.staging_piece_bytes = shared_->options().staging_piece_bytes;
  }

  const tensor::Device& device() const override { return memory_->device(); }
  const ops::Capabilities& capabilities() const override { return capabilities_; }
  const ops::Operations& operations() const override { return operations_; }
  std::shared_ptr<tensor::Memory> memory() const override { return memory_; }
  std::shared_ptr<tensor::Memory> staging_memory() const override { return staging_memory_; }
  std::uint64_t staging_bytes() const override { return staging_memory_->held_bytes(); }
  ops::HostTraffic host_traffic() const override {
    const Report now = shared_->report();
    return {now.bytes_up, now.bytes_down};
  }
  Report report() const override { return shared_->report(); }

  Result<std::unique_ptr<tensor::Stream>> open_stream() override {
    return std::unique_ptr<tensor::Stream>(std::make_unique<HostileStream>(shared_));
  }
  Result<void> host_reads(ByteView bytes) override { return shared_->host_reads(bytes); }

  Result<std::unique_ptr<tensor::Event>> record(tensor::Stream& stream) override {
    HostileStream* mine = own(stream);
    if (!mine) return shared_->fault("record: the stream is another device's");
    return std::unique_ptr<tensor::Event>(std::make_unique<HostileEvent>(*mine));
  }
  Result<void> wait(tensor::Stream& stream, const tensor::Event& event,
                    tensor::WaitSite site) override {
    HostileStream* mine = own(stream);
    const auto* known = dynamic_cast<const HostileEvent*>(&event);
    if (!mine || !known) return shared_->fault("wait: stream or event is another device's");
    if (mine->is_noting()) return shared_->fault("wait: while work is noted");
    if (shared_->waits(HostileDevice::Waiter::stream, site)) known->hold(*mine);
    return {};
  }
  Result<std::unique_ptr<ops::NotedWork>> note_work(
      tensor::Stream& stream, const std::function<Result<void>()>& queue) override {
    HostileStream* mine = own(stream);
    if (!mine) return shared_->fault("note_work: the stream is another device's");
    auto noted = std::make_unique<HostileWork>();
    mine->note_into(&noted->calls);
    const auto done = queue();
    mine->note_into(nullptr);
    if (!done) return std::unique_ptr<ops::NotedWork>();
    shared_->count([](Report& report) { ++report.noted; });
    return std::unique_ptr<ops::NotedWork>(std::move(noted));
  }
  Result<void> replay(tensor::Stream& stream, const ops::NotedWork& work) override {
    HostileStream* mine = own(stream);
    const auto* known = dynamic_cast<const HostileWork*>(&work);
    if (!mine || !known) return shared_->fault("replay: stream or work is another device's");
    for (const NotedCall& call : known->calls)
      if (auto done = mine->make(call); !done) return done;
    shared_->count([](Report& report) { ++report.replayed; });
    return {};
  }

  Result<void> upload(tensor::Stream& stream, ByteView from, void* to) override {
    if (from.empty()) return {};
    if (shared_->window().contains(from.data()))
      return shared_->fault("upload: its source is not the host's but " +
                            shared_->window().text_of(from.data()));
    auto name = enter(stream, {"upload", {}, "from"}, from.data(), to, from.size());
    if (!name) return name.error();
    shared_->count([&](Report& report) { ++report.uploads, report.bytes_up += from.size(); });
    void* place = shared_->window().behind(to);
    queue_copy(*own(stream),
               std::make_shared<HostCopy>(from, staging_memory_->contains(from.data())),
               [=, this](const HostCopy& copy) {
                 copy.read_host(place);
                 if (digest_of({static_cast<const std::byte*>(place), from.size()}) != copy.digest)
                   shared_->fault(*name + ": its source, " + std::to_string(from.size()) +
                                  " bytes of " + shared_->window().text_of(from.data()) +
                                  ", changed before the copy had run: synchronise first");
               });
    return {};
  }

  Result<void> download(tensor::Stream& stream, const void* from, MutableByteView to) override {
    if (to.empty()) return {};
    if (shared_->window().contains(to.data()))
      return shared_->fault("download: its destination is not the host's but " +
                            shared_->window().text_of(to.data()));
    auto name = enter(stream, {"download", {}, "to"}, from, to.data(), to.size());
    if (!name) return name.error();
    shared_->count([&](Report& report) { ++report.downloads, report.bytes_down += to.size(); });
    std::memset(to.data(), kPoison, to.size());
    const void* place = shared_->window().behind(from);
    queue_copy(*own(stream), std::make_shared<HostCopy>(to, staging_memory_->contains(to.data())),
               [place](const HostCopy& copy) { copy.write_host(place); });
    return {};
  }

  Result<void> copy(tensor::Stream& stream, const void* from, void* to,
                    std::size_t bytes) override {
    if (bytes == 0) return {};
    const auto* source = static_cast<const std::byte*>(from);
    if (source < static_cast<std::byte*>(to) + bytes && to < source + bytes)
      return shared_->fault("copy: its ranges overlap, at " + shared_->window().text_of(from) +
                            " and " + shared_->window().text_of(to));
    const void* source_place = shared_->window().behind(from);
    void* place = shared_->window().behind(to);
    return make(stream, {"copy",
                         {{"from", source, bytes, ops::Use::read},
                          {"to", static_cast<const std::byte*>(to), bytes, ops::Use::write}},
                         [=](const std::string&) { std::memcpy(place, source_place, bytes); },
                         &Report::copies});
  }

  Result<void> clear(tensor::Stream& stream, void* to, std::size_t bytes) override {
    if (bytes == 0) return {};
    void* place = shared_->window().behind(to);
    return make(stream, {"clear",
                         {{"to", static_cast<const std::byte*>(to), bytes, ops::Use::write}},
                         [=](const std::string&) { std::memset(place, 0, bytes); },
                         &Report::clears});
  }

 private:
  static void queue_copy(HostileStream& stream, std::shared_ptr<HostCopy> copy,
                         std::function<void(const HostCopy&)> run) {
    auto& copies = stream.copies();
    copies->add(copy, stream.queue().pushed() + 1);
    stream.queue().push([copies, copy, run = std::move(run)] { copies->run(*copy, run); });
  }
  Result<void> make(tensor::Stream& stream, NotedCall call) {
    HostileStream* mine = own(stream);
    if (!mine) return shared_->fault(call.name + ": the stream is another device's");
    return mine->make(std::move(call));
  }
  // Of a copy between host and device.
  Result<std::string> enter(tensor::Stream& stream, HostileDevice::Call call, const void* from,
                            void* to, std::size_t bytes) {
    HostileStream* mine = own(stream);
    if (!mine) return shared_->fault(call.name + ": the stream is another device's");
    if (mine->is_noting()) return shared_->fault(call.name + ": while work is noted");
    const std::vector<ops::Access> accesses = {
        {"from", static_cast<const std::byte*>(from), bytes, ops::Use::read},
        {"to", static_cast<const std::byte*>(to), bytes, ops::Use::write}};
    call.accesses = accesses;
    return shared_->enter(*mine, call);
  }

  std::shared_ptr<HostileDevice> shared_;
  std::shared_ptr<HostileMemory> memory_;
  std::shared_ptr<PageLockedMemory> staging_memory_;
  ops::Capabilities capabilities_;
  ops::Operations operations_;
};

}  // namespace

Result<std::unique_ptr<HostileBackend>> open_backend(const Options& options) {
  auto window = DeviceWindow::open(options.memory_bytes);
  if (!window) return window.error();
  return std::unique_ptr<HostileBackend>(
      std::make_unique<Backend>(std::make_shared<HostileDevice>(options, std::move(*window))));
}

}  // namespace gpunode::hostile
