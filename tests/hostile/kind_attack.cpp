// One kind of message or call, as large and as fast as it may be, at one victim.
#include <algorithm>
#include <atomic>
#include <thread>

#include "actors/node/call_codec.hpp"
#include "actors/node/relay_codec.hpp"
#include "runtime/storage/durable_record.hpp"
#include "tests/hostile/attacks.hpp"

namespace gpunode::hostile {
namespace {

using transport::Lane;
using transport::Topic;

struct Kind {
  std::string_view name;
  Topic topic;
  Lane lane;
  std::size_t bytes;   // of a payload
  const char* called;  // the name of a call
};
constexpr Kind kKinds[] = {
    {"gossip", Topic::membership, Lane::control, 0, nullptr},
    {"directory", Topic::directory, Lane::control, 0, nullptr},
    {"admission", Topic::admission, Lane::control, 1 << 20, nullptr},
    {"job", Topic::job, Lane::control, 1 << 20, nullptr},
    {"job_bulk", Topic::job, Lane::bulk, 16 << 20, nullptr},
    {"service", Topic::call, Lane::bulk, 16 << 20, "translate"},
    {"question", Topic::call, Lane::control, 1 << 20, "job.phase"},
    {"work", Topic::call, Lane::control, 0, "job.fitness"},
};

class OfOneKind final : public Attack {
 public:
  OfOneKind(const AttackOptions& options, const Kind& kind) : options_(options), kind_(kind) {
    message_ = {kind.topic, 1, {}, SharedBytes::from(Bytes(kind.bytes))};
    if (kind.called) message_.body = node::encode(node::CallHeader{kind.called, 60'000});
    if (kind.topic == Topic::admission)
      message_.body = node::encode(node::RelayMessage{node::RelayKind::credentials, 0});
    if (message_.body.empty()) message_.body = Bytes(std::size_t{48} << 10, std::byte{1});
    if (options.manifest.empty()) return;
    storage::PosixFileSystem files;
    const storage::DurableRecord manifest(files, options.manifest, {{'J', 'O', 'B', 'M'}, 1});
    if (const auto bytes = manifest.load(); bytes && *bytes)
      message_.payload = SharedBytes::from(**bytes);
  }

  void step() override {
    if (options_.member->send(options_.victim, kind_.lane, message_)) {
      ++sent_;
      ++message_.stream;
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  std::uint64_t done() const override { return sent_; }

 private:
  const AttackOptions options_;
  const Kind& kind_;
  transport::Message message_;
  std::uint64_t sent_ = 0;
};

}  // namespace

std::unique_ptr<Attack> make_kind(std::string_view name, const AttackOptions& options) {
  const auto kind = std::ranges::find(kKinds, name, &Kind::name);
  return kind == std::end(kKinds) ? nullptr : std::make_unique<OfOneKind>(options, *kind);
}

}  // namespace gpunode::hostile
