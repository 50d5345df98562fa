// What a simulated world is made of, which faults it has, and what came of it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/collective/all_reduce.hpp"
#include "runtime/job/job_message.hpp"
#include "tests/sim/job_coverage.hpp"
#include "tests/sim/job_disk.hpp"
#include "tests/sim/job_model.hpp"
#include "tests/sim/job_storm.hpp"

namespace gpunode::sim {

// Moments at which a planned fault strikes.
enum class Moment : std::uint8_t {
  after_accepted,  // an acceptor has voted
  after_promise,   // an acceptor has promised
  on_accept,       // a proposer asks for votes
  between_dones,   // a member has said DONE to some, not to all
  on_notice,       // a decided view is told to some
  before_durable,  // votes are written, not yet synced
  on_commit,       // a step is committed, its Apply is under way
  on_state_part,   // a learner is fed
  kCount
};
enum class Strike : std::uint8_t { crash, isolate, pause, kCount };

struct PlannedFault {
  Moment moment = Moment::after_accepted;
  Strike strike = Strike::crash;
  std::uint32_t nth = 1;  // strikes at the nth such moment; 0: at none yet
  bool fired = false;
};

// Failures that no detector sees at once, or that last.
enum class Grey : std::uint8_t {
  hung_compute,     // partial sums come 1 to 60 s late, or not before everything heals
  hung_apply,       // likewise the update of the state, or any other use of it
  slow_checkpoint,  // one takes seconds to write
  failed_read,      // of a checkpoint that is asked for by a witness
  bad_checkpoint,   // its bytes are not what was written; found out when it is restored
  removed,          // an old checkpoint, as only so many are kept
  lost_machine,     // for good, with its disk
  dead_job,         // the job's part on a node ends and says nothing; the node lives on
  lasting_cut,      // one way, until everything heals
  late_cut,         // one way, until a minute after that
  long_split,       // in two halves, for long enough to go on without each other
  stopped_clock,    // the node stands still, and so does its clock: a hypervisor's pause
  stale_hints,      // a life that knows none but the first candidates
  large_state,      // copies of it take seconds; no rate: a world has it or not
  kCount
};
constexpr auto kGreyCount = static_cast<std::size_t>(Grey::kCount);
std::string_view to_string(Grey fault);
using GreyRates = std::array<double, kGreyCount>;

// Moments of a Storm's planned strike: those above, and these.
enum class LateMoment : std::uint8_t { last_step, rollback, stopped, any_view, finished, kCount };
constexpr auto kStormMoments =
    static_cast<std::size_t>(Moment::kCount) + static_cast<std::size_t>(LateMoment::kCount);
struct PlannedStorm {
  std::size_t moment = 0;
  Storm strike = Storm::long_pause;
  std::uint32_t nth = 1;
  bool fired = false;
};

struct WorldOptions {
  std::uint64_t seed = 1;
  JobModel model;
  std::shared_ptr<const collective::WireForms> forms;  // null: exact
  collective::Routing routing;                         // nodes are in two sites, every other one
  std::uint32_t node_count = 4;
  std::uint32_t candidate_count = 3;
  // This node lives twice, as one that votes twice does: the last node has its name and its key, and
  // is what these nodes hear and reach by it. No rule of the checks is for such a world.
  std::optional<std::size_t> twin_of;
  std::set<std::size_t> twin_side;
  std::uint32_t late_count = 0;  // the last nodes start when everything heals
  std::uint32_t wanted_nodes = 3;
  std::uint32_t min_nodes = 1;
  std::uint32_t witness_count = 0;  // of the nodes the last ones, which never compute
  Duration fault_time = std::chrono::seconds(15);  // then everything heals
  Duration heal_time = std::chrono::seconds(120);  // the job must end by then
  double crash_rate = 0.1;                         // a second and node
  double cut_rate = 0.2;                           // a second
  double reset_rate = 0.5;                         // a second
  double pause_rate = 0.1;
  double false_suspicion_rate = 0.1;
  double leave_rate = 0.0;
  double stop_rate = 0.0;     // a second: a person stops the job, and resumes it a while later
  double recover_rate = 0.0;  // a second: a person recovers it by force from a random node
  double loss = 0.01;         // of a message
  double repetition = 0.01;   // of a message
  std::uint64_t checkpoint_every = 0;  // steps; 0: never
  double refused = 0.8;                // share of crashes that a refused dial tells at once
  Duration compute_low = std::chrono::milliseconds(2);  // time of one partial sum
  Duration compute_high = std::chrono::milliseconds(40);
  Duration apply_low = std::chrono::milliseconds(1);  // of a step to the state
  Duration apply_high = std::chrono::milliseconds(5);
  // By node, if given: the time of one slice; a node computes one after another.
  std::vector<Duration> slice_times;
  double corruption = 0.0;  // of a result chunk, past all checksums
  // Bytes a second of all links to and from the last node, each way; 0: no limit.
  std::uint64_t last_node_rate = 0;
  // Bytes a second that leave each node, over all its links; 0: no limit.
  std::uint64_t uplink_rate = 0;
  double clock_drift = 0.0;  // at most, of a node's clock against the others'
  double names_first = 0.0;  // of vote writes cut by a crash: see VoteDisk
  VoteDisk::Mutations disk_mutations;
  std::vector<PlannedFault> planned;
  // A second and node, or a second (cuts and splits); of a life (stale_hints), of a write or a read
  // (checkpoints).
  GreyRates grey{};
  StormRates storm{};  // a second and node, or a second; late_copies: of a message
  std::vector<PlannedStorm> planned_storms;
  bool visible_waits = false;          // who stands still for a minute and a half says why
  bool brings_back = false;            // a person starts nodes again that the others wait for
  bool loses_outcomes = false;         // a node dies before it could store that it is through
  bool nobody_recovers = false;        // not even after a machine was lost for good
  std::uint32_t checkpoints_kept = 1;  // on each disk, the newest
  bool over_the_wire = true;           // messages pass the codec
  bool device_link = false;            // all nodes' devices may form a group
  double group_break = 0.02;           // of a carried step and member
  bool goes_on_alone = false;          // the job's on_lost_quorum is "continue"
  bool swim_detects = false;  // verdicts come from each node's own Swim, not from an oracle
  // Told of all that is sent, and by whom; what it changes of it is sent.
  std::function<void(const NodeId&, job::JobMessage&)> overhears;
  std::string broken_rule;    // of the product (runtime/base/broken_rule.hpp), while the world runs
  bool only_effects = false;  // ignore breaches that have not done harm yet
  bool trace = false;
  Coverage* coverage = nullptr;  // told of every input, if any
  bool is_inexact() const { return forms || routing.one_sum; }
};

struct WorldResult {
  std::vector<std::string> failures;  // empty: all is well
  bool finished = false;
  bool waits = false;  // not finished, for want of what no node has any more
  std::uint64_t commits = 0;
  std::uint64_t views = 0;
  std::uint64_t rollbacks = 0;
  std::uint64_t crashes = 0;
  std::uint64_t leaves = 0;  // politely
  std::uint64_t learners = 0;
  std::uint64_t followed = 0;    // steps that learners applied
  std::uint64_t speculated = 0;  // steps that were speculated whole before they were applied
  std::uint64_t disagreements = 0;
  std::uint64_t carried = 0, broken_groups = 0;  // results that came by devices; breaks
  std::uint64_t stops = 0;
  std::uint64_t generations = 0;
  std::uint64_t plans = 0;      // different slice plans that were followed
  std::uint64_t witnessed = 0;  // views with a witness
  std::uint64_t copies = 0;     // checkpoints that witnesses hold
  std::uint64_t durable = 0;    // newest step of a checkpoint that was called durable
  std::vector<std::pair<std::size_t, NodeId>> exposed;  // where, and who has voted twice
  std::vector<std::pair<std::size_t, NodeId>> yielded;  // where, and to whose view
  std::uint64_t verdicts = 0;                           // of Swim, that somebody is dead
  // Of votes on disk: writes that a crash lost or cut short, files that were found torn.
  std::uint64_t lost_votes = 0, cut_votes = 0, torn_votes = 0;
  Time ended{};
  std::vector<PlannedFault> planned;
  std::array<std::uint64_t, kGreyCount> grey{};  // how often each struck
  std::array<std::uint64_t, kStormCount> storm{};
  std::string waits_for;  // what a node says of it, if it waits
};

}  // namespace gpunode::sim
