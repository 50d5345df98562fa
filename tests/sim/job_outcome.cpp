// A run of the simulated world from its first event to its last, and what is to be said of its end.
#include <algorithm>
#include <numeric>

#include "tests/sim/job_world.hpp"
#include "tests/support/broken_rules.hpp"

namespace gpunode::sim {

using namespace std::chrono_literals;

bool JobWorld::all_finished() const {
  return std::all_of(nodes_.begin(), nodes_.end(),
                     [this](const Node& node) { return node.core ? node.finished : !node.coming; });
}

void JobWorld::begin_faults() {
  random_faults();
  const double any_grey = std::accumulate(options_.grey.begin(), options_.grey.end(), 0.0);
  if (any_grey > 0) grey_faults();
  storms();
  if (options_.model.ballast_bytes > 0 && options_.uplink_rate > 0) struck(0, Grey::large_state);
  double orders = options_.stop_rate + options_.recover_rate +
                  options_.grey[static_cast<std::size_t>(Grey::lost_machine)];
  for (const Storm storm :
       {Storm::lost_machines, Storm::resume_from, Storm::two_recoveries, Storm::stops})
    orders += options_.storm[static_cast<std::size_t>(storm)];
  if (orders > 0) random_orders();
}

WorldResult JobWorld::run() {
  std::optional<testing::BreakRule> broken;
  if (!options_.broken_rule.empty()) broken.emplace(options_.broken_rule);
  const std::size_t later = options_.witness_count + options_.late_count;
  for (std::size_t node = 0; node + later < nodes_.size(); ++node) start(node);
  detect();
  tell_spares();
  begin_faults();
  const Time healed = Time{} + options_.fault_time;
  schedule(healed, [this] { heal(); });
  std::uint64_t handled = 0;
  while (!events_.empty() && checks_->failures().empty()) {
    if (++handled > 3'000'000) break;
    Event event = events_.top();
    events_.pop();
    const Time since = std::max(healed, progress_);
    if (calm_ && options_.visible_waits && event.at > since + 90s && event.at > looked_ + 5s)
      expect_visible_wait();
    if (event.at > since + options_.heal_time) break;
    now_ = event.at;
    event.act();
    if (calm_ && all_finished()) {
      result_.finished = true;
      break;
    }
  }
  conclude();
  return result_;
}

void JobWorld::conclude() {
  result_.failures = checks_->failures();
  result_.commits = checks_->commits();
  result_.views = checks_->views();
  result_.plans = checks_->plans();
  result_.speculated = checks_->speculated();
  result_.rollbacks = checks_->rollbacks();
  result_.stops = checks_->stops();
  result_.generations = checks_->generations();
  result_.witnessed = witnessed_.size();
  count_disk_faults();
  result_.ended = now_;
  result_.waits = !result_.finished && waits_for_what_is_lost();
  const bool anybody = std::any_of(nodes_.begin(), nodes_.end(),
                                   [](const Node& node) { return node.core.has_value(); });
  if (!anybody && has_lost_a_machine()) result_.finished = false, result_.waits = true;
  if (!result_.failures.empty()) return;
  if (result_.finished) return check_ends();
  if (result_.waits) return;
  if (!has_lost_a_machine())
    result_.failures.push_back("stuck: the job did not end after all faults were healed");
  else
    result_.failures.push_back(
        voters_are_lost() ? "silent: the voters are lost for good, and nobody says so"
                          : "stuck: a machine is lost, the voters live, and nobody says why "
                            "the job does not end");
}

void JobWorld::check_ends() {
  bool anyone = false;
  std::map<HistoryId, Digest> last;  // each history has an end of its own
  for (const Node& node : nodes_) {
    if (!node.core || node.state_step != options_.model.total_steps) continue;
    anyone = true;
    const view::View& view = node.core->view();
    if (!options_.is_inexact() && !checks_->is_an_end(node.state_digest))
      result_.failures.push_back("a final state is that of no history");
    // Who was through alone has seen the view that it yields to, but takes no part in it.
    if (!view.has_member(node.member)) continue;
    if (last.try_emplace(history_of(view), node.state_digest).first->second != node.state_digest)
      result_.failures.push_back("the final states of two nodes differ");
  }
  if (!anyone) result_.failures.push_back("nobody holds the final state");
  for (std::size_t node = 0; anyone && node < nodes_.size(); ++node)
    if (nodes_[node].core && node + options_.witness_count < nodes_.size() &&
        !nodes_[node].leaves && nodes_[node].state_step != options_.model.total_steps)
      result_.failures.push_back("17: n" + std::to_string(node) + " ends without the result");
}

}  // namespace gpunode::sim
