#include "tests/hostile/false_teller.hpp"

#include <nlohmann/json.hpp>

#include <fstream>
#include <thread>

#include "actors/job/job_note_codec.hpp"
#include "runtime/directory/directory.hpp"
#include "runtime/membership/swim.hpp"

namespace gpunode::hostile {
namespace {

using nlohmann::json;

Time now() {
  return Time(std::chrono::steady_clock::now().time_since_epoch());
}

class FalseTeller {
 public:
  explicit FalseTeller(Member& member)
      : member_(member),
        swim_(member.own_record(), membership::SwimConfig{}, record_signing(member), 1, now()),
        directory_(member.identity().id(), member.own_record().incarnation.boot, {},
                   member.directory_signing(), 2, now()) {
    for (const Peer& peer : member.peers()) carry_out(swim_.add_seed(now(), peer.record));
  }

  void on_message(const NodeId& from, const transport::Message& message) {
    std::lock_guard lock(mutex_);
    if (message.topic == transport::Topic::membership)
      carry_out(swim_.on_message(now(), from, message.body));
    if (message.topic == transport::Topic::directory)
      carry_out(directory_.on_message(now(), from, message.body));
  }
  void on_state(const NodeId& peer, transport::Lane lane, LinkState state) {
    std::lock_guard lock(mutex_);
    if (lane == transport::Lane::control) carry_out(swim_.on_connection(now(), peer, state));
  }
  void on_tick(const json& jobs) {
    std::lock_guard lock(mutex_);
    ++ticks_;
    carry_out(swim_.on_tick(now()));
    if (ticks_ % 4 != 0) return;
    for (const json& told : jobs) say(told);
    carry_out(directory_.on_tick(now()));
  }

 private:
  static membership::RecordSigning record_signing(const Member& member) {
    return {[&member](ByteView bytes) {
              return to_bytes(member.identity().sign("member record", bytes));
            },
            [](const NodeId&, const membership::PublicKey&, ByteView, ByteView) { return true; },
            nullptr};
  }
  void say(const json& told) {
    jobs::JobHint hint;
    hint.name = told.value("name", "");
    hint.reason = told.value("reason", "");
    hint.phase = jobs::parse_job_phase(told.value("phase", "")).value_or(jobs::JobPhase::running);
    hint.step = told.value("step", 0) + (told.value("rises", false) ? ticks_ : 0);
    hint.steps = told.value("steps", 0);
    hint.view_id = told.value("view", 0);
    hint.members = told.value("members", 1);
    hint.wanted = told.value("wanted", 1);
    hint.ended = told.value("ended", false);
    hint.submitted = told.value("submitted", std::int64_t{0});
    hint.submitter = NodeId::parse(told.value("submitter", "")).value_or(NodeId{});
    hint.waited_as = told.value("waited_as", "");
    auto done = directory_.set(now(), "job/" + told.value("job", ""), encode(jobs::JobNote(hint)));
    if (done) carry_out(std::move(*done));
  }
  void send(const NodeId& to, transport::Topic topic, Bytes bytes) {
    member_.send(to, transport::Lane::control, {topic, 0, std::move(bytes), {}});
  }
  void carry_out(directory::Actions actions) {
    for (directory::Action& action : actions)
      if (auto* send_it = std::get_if<directory::Send>(&action))
        send(send_it->to, transport::Topic::directory, std::move(send_it->bytes));
  }
  void carry_out(membership::Actions actions) {
    for (membership::Action& action : actions) {
      if (auto* send_it = std::get_if<membership::Send>(&action))
        send(send_it->to, transport::Topic::membership, std::move(send_it->bytes));
      const auto* changed = std::get_if<membership::Changed>(&action);
      if (!changed) continue;
      const NodeId& node = changed->record.id;
      carry_out(changed->state == PeerHealth::alive ? directory_.on_peer_up(now(), node)
                                                    : directory_.on_peer_gone(now(), node));
    }
  }

  Member& member_;
  std::mutex mutex_;
  membership::Swim swim_;
  directory::Directory directory_;
  int ticks_ = 0;
};

}  // namespace

int tell(Member& member, const std::string& file, double seconds) {
  FalseTeller teller(member);
  member.watch(
      {[&](const auto& from, const auto& message) { teller.on_message(from, message); },
       [&](const auto& peer, auto lane, auto state) { teller.on_state(peer, lane, state); }});
  const auto end =
      now() + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  while (now() < end) {
    std::ifstream in(file);
    const json jobs = json::parse(in, nullptr, false);
    teller.on_tick(jobs.is_array() ? jobs : json::array());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  member.watch({});
  return 0;
}

}  // namespace gpunode::hostile
