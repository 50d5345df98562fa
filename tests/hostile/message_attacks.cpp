// Attacks by messages over a session that the victim has accepted: garbage and oversized ones of every
// kind, forged ones that look right, replayed ones, floods of calls, answers that are never read.
#include <filesystem>
#include <fstream>
#include <iterator>

#include "actors/job/job_note_codec.hpp"
#include "actors/node/call_codec.hpp"
#include "actors/node/relay_codec.hpp"
#include "runtime/directory/directory.hpp"
#include "runtime/job/job_codec.hpp"
#include "runtime/membership/membership_codec.hpp"
#include "runtime/security/crypto.hpp"
#include "tests/hostile/attacks.hpp"

namespace gpunode::hostile {
namespace {

using transport::Lane;
using transport::Message;
using transport::Topic;

constexpr const char* kCalls[] = {
    "job.fitness", "job.create",    "job.begin",    "job.refused",   "job.witness", "job.manifest",
    "job.history", "job.phase",     "job.spans",    "job.clock",     "job.command", "job.remove",
    "queue.keep",  "queue.promise", "queue.accept", "queue.started", "no.such",     ""};

class ByMessages : public Attack {
 public:
  explicit ByMessages(const AttackOptions& options) : options_(options), rng_(options.seed) {}
  std::uint64_t done() const override { return sent_; }

 protected:
  void say(Topic topic, Bytes body, Bytes payload = {}, Lane lane = Lane::control,
           std::uint64_t stream = 0) {
    Message message{topic, stream ? stream : rng_.next(), std::move(body),
                    SharedBytes::from(std::move(payload))};
    if (options_.member->send(options_.member->some_peer(rng_).record.id, lane, std::move(message)))
      ++sent_;
  }
  Lane some_lane() { return rng_.chance(0.8) ? Lane::control : Lane::bulk; }
  JobId some_job() {
    if (options_.jobs.empty() || rng_.chance(0.05)) return {rng_.next(), rng_.next()};
    const Bytes id = from_hex(options_.jobs[rng_.below(options_.jobs.size())]);
    JobId job;
    for (std::size_t at = 0; at < 8 && id.size() == 16; ++at) {
      job.high = job.high << 8 | std::to_integer<std::uint64_t>(id[at]);
      job.low = job.low << 8 | std::to_integer<std::uint64_t>(id[at + 8]);
    }
    return job;
  }
  Bytes noise(std::size_t most) {
    Bytes bytes(rng_.below(most + 1));
    for (std::byte& one : bytes) one = static_cast<std::byte>(rng_.next());
    return bytes;
  }

  const AttackOptions options_;
  Rng rng_;
  std::uint64_t sent_ = 0;
};

// What the fuzzers begin with, changed here and there, or as long as it may be.
class Garbage : public ByMessages {
 public:
  explicit Garbage(const AttackOptions& options) : ByMessages(options) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(options.corpus)) {
      if (!entry.is_regular_file() || entry.file_size() > (64u << 10)) continue;
      std::ifstream in(entry.path(), std::ios::binary);
      const std::string text{std::istreambuf_iterator<char>(in), {}};
      corpus_.push_back(to_bytes(as_bytes(text)));
    }
  }
  void step() override {
    constexpr Topic kTopics[] = {Topic::membership, Topic::directory, Topic::call,
                                 Topic::reply,      Topic::job,       Topic::admission};
    const Topic topic = rng_.chance(0.95) ? kTopics[rng_.below(std::size(kTopics))]
                                          : static_cast<Topic>(rng_.below(100));
    const JobId job = some_job();
    if (rng_.chance(0.02))
      return say(topic, Bytes(transport::kMaxBodyBytes, std::byte{1}),
                 Bytes(transport::kMaxControlPayloadBytes, std::byte{2}), Lane::control, job.low);
    if (topic == Topic::call && rng_.chance(0.7))
      return say(topic, encode(node::CallHeader{kCalls[rng_.below(std::size(kCalls) - 1)], 1000}),
                 changed());
    if (topic == Topic::admission && rng_.chance(0.7))
      return say(
          topic,
          encode(node::RelayMessage{static_cast<node::RelayKind>(rng_.below(4)), rng_.below(100)}),
          changed());
    say(topic, changed(), rng_.chance(0.3) ? noise(5000) : Bytes{}, some_lane(), job.low);
  }

 private:
  Bytes changed() {
    if (corpus_.empty()) return noise(300);
    Bytes bytes = corpus_[rng_.below(corpus_.size())];
    for (std::uint64_t i = rng_.below(4); i > 0 && !bytes.empty(); --i)
      bytes[rng_.below(bytes.size())] ^= std::byte(1 << rng_.below(8));
    return bytes;
  }
  std::vector<Bytes> corpus_;
};

// Lies that decode: of others' deaths and lives, of jobs, of who is admitted.
class Forged : public ByMessages {
 public:
  explicit Forged(const AttackOptions& options)
      : ByMessages(options),
        map_(options.member->identity().id(), options.member->own_record().incarnation.boot, {},
             options.member->directory_signing(), options.seed, Time{}) {}
  void step() override {
    switch (rng_.below(5)) {
      case 0:
        return rumors();
      case 1:
        return entries();
      case 2:
        return credentials();
      default:
        return job();
    }
  }

 private:
  void rumors() {
    using namespace membership;
    membership::Message message{static_cast<MessageKind>(rng_.below(6)),
                                rng_.below(1000),
                                options_.member->some_peer(rng_).record.id,
                                rng_.chance(0.5),
                                {}};
    for (std::uint64_t count = rng_.below(40); count > 0; --count) {
      const MemberRecord& about = options_.member->some_peer(rng_).record;
      Rumor rumor{static_cast<PeerHealth>(rng_.below(4)), about.id, about.incarnation, {}, {}, {}};
      if (rng_.chance(0.3)) rumor.incarnation.counter += rng_.below(1u << 20);
      for (std::uint64_t more = rng_.below(3); more > 0; --more)
        rumor.observers.push_back(options_.member->some_peer(rng_).record.id);
      if (rng_.chance(0.3)) {
        rumor.record = about;
        rumor.record->control_endpoints = {"tcp://127.0.0.1:9"};
        rumor.record->incarnation.counter += 1;
      }
      message.rumors.push_back(std::move(rumor));
    }
    // And a true word of its own, newer each time.
    MemberRecord own = options_.member->own_record();
    own.incarnation.counter = ++told_;
    own.signature =
        to_bytes(options_.member->identity().sign("member record", membership::signed_bytes(own)));
    message.rumors.push_back({PeerHealth::alive, own.id, own.incarnation, {}, {}, own});
    say(Topic::membership, encode(message));
  }
  // Its own part of the map is its own to write: as much of it as may be, again and again.
  void entries() {
    const std::string key = "job/" + to_hex(noise(16));
    auto set = map_.set(Time{}, rng_.chance(0.5) ? "service/x" : key, noise(4000));
    if (!set) {
      map_ = directory::Directory(options_.member->identity().id(),
                                  options_.member->own_record().incarnation.boot + ++lives_, {},
                                  options_.member->directory_signing(), options_.seed, Time{});
      return;
    }
    for (const Peer& peer : options_.member->peers()) (void)map_.on_peer_up(Time{}, peer.record.id);
    directory::Actions actions = map_.on_tick(now_ += std::chrono::seconds(2));
    actions.insert(actions.end(), set->begin(), set->end());
    for (directory::Action& action : actions)
      if (auto* send = std::get_if<directory::Send>(&action))
        say(Topic::directory, std::move(send->bytes));
  }
  void credentials() {
    security::Credentials told = options_.member->credentials();
    const auto& me = options_.member->identity();
    for (security::Admission& one : told.admissions)
      if (rng_.chance(0.5)) {
        one.rights = security::kAllRights;
        one.node.value[0] = static_cast<std::byte>(rng_.next());
        one.sign(me);
      }
    if (rng_.chance(0.5)) {
      security::Revocation out{told.admissions.front().cluster,
                               options_.member->some_peer(rng_).record.id,
                               "forged",
                               {},
                               told.admissions.front().issued,
                               {}};
      out.sign(me);
      told.revocations.push_back(std::move(out));
    }
    say(Topic::admission, encode(node::RelayMessage{node::RelayKind::credentials, 0}),
        encode_credentials(told));
  }
  void job() {
    using namespace job;
    const NodeId peer = options_.member->some_peer(rng_).record.id;
    const NodeId me = options_.member->identity().id();
    view::View view;
    view.job = some_job();
    view.view_id = 1 + rng_.below(100);
    view.members = {{me, 1}, {peer, 1}};
    view.acceptors = {me, peer};
    view.tie = me;
    view.base_step = rng_.below(1000);
    view.sync_sources = {me};
    const view::Ballot ballot{rng_.below(1000), me};
    const view::DecidedView decided{view, ballot, {me}, me, {{me, {}}}};
    JobBody bodies[] = {Vote{view::Prepare{ballot, "forged"}},
                        Vote{view::Promise{ballot, view::AcceptedView{ballot, view}, {}}},
                        Vote{view::Accept{ballot, view}},
                        Vote{view::Accepted{ballot, {}}},
                        Vote{view::Probe{rng_.next()}},
                        FreezeHint{"forged", {peer}},
                        ViewNotice{view::ViewChain(1 + rng_.below(20), decided)},
                        ViewAsk{},
                        JoinAsk{{1, 1}, true, 0, true, rng_.below(1000), {peer}},
                        JoinRefused{"forged"},
                        StepStatus{rng_.next(), true, true},
                        StateAsk{rng_.below(1000)},
                        StateRead{{1, 1}, 0, 256 << 10},
                        WitnessOffer{rng_.chance(0.5)},
                        ResultRead{rng_.below(1000), 0, 256 << 10},
                        LeaseGrant{Time{}, true, true, {}},
                        StatePart{{1, 1}, 0, SharedBytes::from(noise(60'000))},
                        StepMessage{rng_.below(1000), {1, 1}, collective::Done{{1, 1}, {}, {}}}};
    JobBody& body = bodies[rng_.below(std::size(bodies))];
    const auto encoded = encode_message({view.job, {{}, rng_.below(200)}, 1, std::move(body)});
    say(Topic::job, encoded.body, to_bytes(encoded.payload.view),
        encoded.payload.empty() ? Lane::control : Lane::bulk, view.job.low);
  }

  directory::Directory map_;
  Boot lives_ = 0;
  std::uint64_t told_ = 0;
  Time now_{};
};

// What one node said is said again, to it and to all others.
class Replay : public ByMessages {
 public:
  using ByMessages::ByMessages;
  void step() override {
    if (heard_.empty() || rng_.chance(0.01)) heard_ = options_.member->heard();
    if (heard_.empty()) return say(Topic::job, {});
    Message again = heard_[rng_.below(heard_.size())];
    if (options_.member->send(options_.member->some_peer(rng_).record.id, some_lane(),
                              std::move(again)))
      ++sent_;
  }

 private:
  std::vector<Message> heard_;
};

class CallFlood : public ByMessages {
 public:
  using ByMessages::ByMessages;
  void step() override {
    Bytes request = noise(200);
    if (rng_.chance(0.5)) {
      const JobId job = some_job();
      request.clear();
      append_number(request, job.high);
      append_number(request, job.low);
    }
    if (rng_.chance(0.2)) request = encode(jobs::JobNote(jobs::Fitness{}));
    if (rng_.chance(0.01)) request = Bytes(1u << 20);
    say(Topic::call,
        encode(node::CallHeader{kCalls[rng_.below(std::size(kCalls) - 1)],
                                rng_.chance(0.1) ? 0xffffffff : 30'000}),
        std::move(request));
  }
};

// Asks for what is large, and does not read it.
class SlowReader : public ByMessages {
 public:
  explicit SlowReader(const AttackOptions& options) : ByMessages(options) {
    options.member->read_slowly(std::chrono::milliseconds(500));
  }
  void step() override {
    using namespace membership;
    if (rng_.chance(0.4))
      return say(Topic::membership,
                 encode(membership::Message{MessageKind::sync, 1, {}, true, {}}));
    if (rng_.chance(0.5)) {
      directory::Message wanted{directory::MessageKind::request, {}, {}, {}};
      for (const Peer& peer : options_.member->peers())
        wanted.positions.push_back({peer.record.id, 0, 0});
      return say(Topic::directory, encode(wanted));
    }
    say(Topic::call, encode(node::CallHeader{"job.history", 30'000}),
        to_bytes(as_bytes(options_.jobs.empty() ? "" : options_.jobs.front())));
  }
};

}  // namespace

std::unique_ptr<Attack> make_garbage(const AttackOptions& options) {
  return std::make_unique<Garbage>(options);
}
std::unique_ptr<Attack> make_forged(const AttackOptions& options) {
  return std::make_unique<Forged>(options);
}
std::unique_ptr<Attack> make_replay(const AttackOptions& options) {
  return std::make_unique<Replay>(options);
}
std::unique_ptr<Attack> make_calls(const AttackOptions& options) {
  return std::make_unique<CallFlood>(options);
}
std::unique_ptr<Attack> make_slow(const AttackOptions& options) {
  return std::make_unique<SlowReader>(options);
}

}  // namespace gpunode::hostile
