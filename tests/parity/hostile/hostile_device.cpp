#include "tests/parity/hostile/hostile_device.hpp"

#include "kernels/cpu/cpu_backend.hpp"
#include "tests/parity/hostile/wait_name.hpp"

namespace gpunode::hostile {

HostileStream* own(tensor::Stream& stream) {
  return dynamic_cast<HostileStream*>(&stream);
}

HostileStream::HostileStream(std::shared_ptr<HostileDevice> device)
    : device_(std::move(device)),
      number_(device_->with_ledger([](AccessLedger& ledger) { return ledger.open_stream(); })),
      queue_(std::make_shared<LateQueue>(device_->options().pace,
                                         mix(device_->options().seed, number_))) {}

HostileStream::~HostileStream() {
  queue_->wait_for_all();
  device_->with_ledger([&](AccessLedger& ledger) { ledger.close_stream(number_); });
}

Result<void> HostileStream::make(NotedCall call) {
  if (noted_) return noted_->push_back(std::move(call)), Result<void>();
  auto name = device_->enter(*this, {call.name, call.accesses});
  if (!name) return name.error();
  device_->count([&](Report& report) { ++(report.*call.counter); });
  queue_->push([work = std::move(call.work), name = *std::move(name)] { work(name); });
  return {};
}

Result<void> HostileStream::synchronise(tensor::WaitSite site) {
  return HostileEvent(*this).synchronise(site);
}

HostileEvent::HostileEvent(HostileStream& stream)
    : device_(stream.shared_device()),
      queue_(stream.shared_queue()),
      copies_(stream.copies()),
      is_noted_(stream.is_noting()),
      number_(queue_->pushed()),
      clock_(device_->with_ledger(
          [&](AccessLedger& ledger) { return ledger.clock_of(stream.number()); })) {}

Result<void> HostileEvent::synchronise(tensor::WaitSite site) {
  if (is_noted_) return device_->fault("a wait while work is noted");
  if (!device_->waits(HostileDevice::Waiter::host, site)) {
    copies_->leave_host_alone(number_);
    return device_->state();
  }
  queue_->wait_for(number_);
  device_->with_ledger([&](AccessLedger& ledger) { ledger.host_learns(clock_); });
  return device_->state();
}

void HostileEvent::hold(HostileStream& stream) const {
  device_->with_ledger(
      [&](AccessLedger& ledger) { ledger.stream_learns(stream.number(), clock_); });
  if (stream.shared_queue() == queue_) return;
  stream.queue().push([queue = queue_, number = number_] { queue->wait_for(number); });
}

HostileDevice::HostileDevice(Options options, std::unique_ptr<DeviceWindow> window)
    : options_(std::move(options)),
      window_(std::move(window)),
      cpu_(cpu::open_backend()),
      arithmetic_(options_.arithmetic.value_or(cpu_->operations())) {}

std::string HostileDevice::text_of(const AccessLedger::Conflict& conflict,
                                   const std::string& call) const {
  const ops::Access &mine = conflict.access, &theirs = conflict.earlier_access;
  const auto verb = [](const ops::Access& access) {
    return access.use == ops::Use::read ? " reads '" : " writes '";
  };
  return std::string(conflict.kind()) + ": " + call + verb(mine) + std::string(mine.field) + "' (" +
         window_->text_of(mine.data) + ", " + std::to_string(mine.bytes) +
         " bytes), and nothing says that it runs after " + conflict.earlier + ", which" +
         verb(theirs) + std::string(theirs.field) + "' (" + window_->text_of(theirs.data) + ", " +
         std::to_string(theirs.bytes) + " bytes): wait for an event between them, or synchronise";
}

void HostileDevice::release(const void* data, std::size_t bytes) {
  const ops::Access access{"memory", static_cast<const std::byte*>(data), bytes, ops::Use::write};
  const auto conflict =
      with_ledger([&](AccessLedger& ledger) { return ledger.enter_host(access); });
  if (conflict) {  // the piece stays, or its last user would take the process with it
    fault("release: " + window_->text_of(data) + " may still be in use by " + conflict->earlier +
          ", as '" + std::string(conflict->earlier_access.field) + "': synchronise first");
    return;
  }
  if (auto reason = window_->release(data)) fault("release: " + *reason);
}

Result<void> HostileDevice::host_reads(ByteView bytes) {
  const ops::Access access{"bytes", bytes.data(), bytes.size(), ops::Use::read};
  const auto conflict =
      with_ledger([&](AccessLedger& ledger) { return ledger.enter_host(access); });
  if (!conflict) return {};
  return fault(text_of(*conflict, "the host"));
}

Error HostileDevice::fault(std::string text, ErrorCode code) {
  std::lock_guard lock(mutex_);
  if (report_.first_error.empty()) {
    report_.first_error = text;
    first_code_ = code;
  }
  return {code, "hostile device: " + std::move(text)};
}

Result<void> HostileDevice::state() const {
  std::lock_guard lock(mutex_);
  if (report_.first_error.empty()) return {};
  return {first_code_, "hostile device: " + report_.first_error};
}

bool HostileDevice::waits(Waiter waiter, const tensor::WaitSite& site) {
  const std::string name = wait_name(site);
  std::lock_guard lock(mutex_);
  Wait& wait = (waiter == Waiter::host ? report_.host_waits : report_.stream_waits)[name];
  ++wait.count;
  wait.file = site.file_name();
  wait.lines.insert(site.line());
  return name != options_.removed_wait;
}

std::uint64_t Report::host_wait_count() const {
  std::uint64_t count = 0;
  for (const auto& [name, wait] : host_waits) count += wait.count;
  return count;
}

Report HostileDevice::report() const {
  std::lock_guard lock(mutex_);
  return report_;
}

Result<std::string> HostileDevice::enter(HostileStream& stream, const Call& call) {
  const std::uint64_t number = with_ledger([&](AccessLedger&) { return ++calls_; });
  const std::string name =
      call.name + " #" + std::to_string(number) + " on stream " + std::to_string(stream.number());
  for (const ops::Access& access : call.accesses) {
    if (access.field == call.host_field) continue;
    if (auto reason = window_->reason_against(access.data, access.bytes))
      return fault(name + ": its argument '" + std::string(access.field) + "' " + *reason);
  }
  const auto conflict = with_ledger(
      [&](AccessLedger& ledger) { return ledger.enter(stream.number(), name, call.accesses); });
  if (conflict) return fault(text_of(*conflict, name));
  return name;
}

}  // namespace gpunode::hostile
