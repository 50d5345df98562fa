// A house of virtual nodes in one event queue: the production classes Swim and Directory, virtual
// time, and a network that loses, delays, doubles, reorders and cuts. Everything follows from one
// seed. The world checks the invariants that must hold at every moment; the tests check the ends.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/rng.hpp"
#include "runtime/directory/directory.hpp"
#include "runtime/membership/swim.hpp"

namespace gpunode::sim {

struct NetworkOptions {
  double loss = 0.01;
  double duplicate = 0.01;
  double straggle = 0.01;  // share of messages that take up to straggle_time: reordering
  Duration delay = std::chrono::microseconds(300);
  Duration straggle_time = std::chrono::milliseconds(1500);
};

struct WorldOptions {
  std::uint64_t seed = 1;
  int nodes = 5;
  NetworkOptions network;
  membership::SwimConfig swim;
  directory::DirectoryConfig directory;
};

// How often each planned fault really struck.
struct FaultCounts {
  std::uint64_t lost = 0, doubled = 0, straggled = 0, blocked = 0, blocked_one_way = 0, killed = 0,
                powered_off = 0, restarted = 0, paused = 0, left = 0, erased = 0, refused = 0,
                reset = 0, forged = 0;
  void add(const FaultCounts& other);
  std::vector<std::string> never_struck() const;
};

class World {
 public:
  explicit World(WorldOptions options);

  // Node `index` starts (again, with a higher boot) and joins through what it knew, or `through`.
  void start(int index, std::optional<int> through = std::nullopt);
  void kill(int index);       // SIGKILL: peers see a reset, dials are refused
  void power_off(int index);  // silence
  void leave(int index);
  void pause(int index, Duration time);  // runs nothing, then all at once
  // `liar` tells `to` of a newer record of `about` that `about` never signed.
  void forge(int liar, int about, int to);
  void reset_link(int a, int b);  // the connection breaks, both stay
  void cut(int from, int to, bool blocked) { blocked_[{from, to}] = blocked; }
  void heal() { blocked_.clear(); }
  void publish(int index, const std::string& key);
  void withdraw(int index, const std::string& key);

  void run(Duration time);
  // Runs until `done` or the limit; how long it took.
  std::optional<Duration> run_until(const std::function<bool()>& done, Duration limit);

  Time now() const { return now_; }
  bool up(int index) const { return nodes_[index].swim != nullptr; }
  int size() const { return static_cast<int>(nodes_.size()); }
  const membership::Swim& swim(int index) const { return *nodes_[index].swim; }
  const directory::Directory& map(int index) const { return *nodes_[index].map; }
  std::optional<PeerHealth> view(int observer, int subject) const;
  static NodeId id_of(int index);

  // Every node that is up sees each other that is up as alive, in its present record, and no other.
  bool members_agree() const;
  // Every node that is up holds exactly what each other that is up has published.
  bool maps_agree() const;
  std::string disagreement() const;  // for the report

  const std::vector<std::string>& violations() const { return violations_; }
  const FaultCounts& faults() const { return faults_; }
  int dead_verdicts() const { return dead_verdicts_; }
  Rng& rng() { return rng_; }

  enum class Channel { swim, map };
  // Told of each message that leaves, before the network does anything to it.
  std::function<void(int from, const NodeId& to, Channel, std::size_t bytes)> on_sent;

 private:
  struct Node {
    std::unique_ptr<membership::Swim> swim;
    std::unique_ptr<directory::Directory> map;
    Boot boot = 0;
    bool host_up = true;  // a killed process's host still refuses dials
    Time paused_until{};
    std::vector<membership::MemberRecord> known;                   // "on disk"
    std::map<std::string, std::uint64_t> published;                // key -> serial
    std::map<int, Time> heard;                                     // last delivery from
    std::map<int, membership::Incarnation> incarnations;           // newest seen of each
    std::map<std::pair<int, std::string>, std::uint64_t> serials;  // newest seen; erased counts
  };
  struct Event {
    Time at;
    std::uint64_t order;
    std::function<void()> run;
    bool operator<(const Event& other) const {
      return std::tie(at, order) > std::tie(other.at, other.order);
    }
  };
  void at(Time time, std::function<void()> run);
  // Runs `event` in this life of the node, later if it is paused.
  void on_node(int index, Boot boot, Time time, std::function<void()> event);
  void tick(int index, Boot boot);
  void transmit(int from, const NodeId& to, Channel channel, Bytes bytes);
  void deliver(int from, int to, Channel channel, const Bytes& bytes);
  void carry_out(int index, membership::Actions actions);
  void carry_out(int index, directory::Actions actions, bool hiding = false);
  void on_changed(int index, const membership::Changed& changed);
  void dial(int index, int target);
  void connection(int index, int peer, LinkState state, Duration after);
  bool is_blocked(int from, int to) const;
  void stop(int index);
  void violation(std::string text);

  WorldOptions options_;
  Rng rng_;
  Time now_ = Time{} + std::chrono::hours(1);
  std::uint64_t order_ = 0;
  std::uint64_t serial_ = 0;
  std::priority_queue<Event> events_;
  std::vector<Node> nodes_;
  std::map<NodeId, int> index_of_;
  std::map<std::pair<int, int>, bool> blocked_;
  std::map<std::pair<int, std::string>, std::uint64_t> erased_at_;  // serial when withdrawn
  std::set<int> left_;
  std::vector<std::string> violations_;
  FaultCounts faults_;
  int dead_verdicts_ = 0;
};

}  // namespace gpunode::sim
