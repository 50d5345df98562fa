// What the tests of the learner share: a learner on node 1, and what members tell and give it.
#pragma once

#include "runtime/base/block_digest.hpp"
#include "runtime/collective/result_digest.hpp"
#include "runtime/job/learner.hpp"
#include "tests/unit/runtime/job/context_fixture.hpp"

namespace gpunode::job {

inline const Bytes kState(20, std::byte{7});  // two parts

// Node 1 is outside and wants in; members 2 and 3 go on.
class LearnerTest : public ContextTest {
 protected:
  LearnerTest() {
    enter({2, 3});
    job_.wants_in = true;
    job_.hints = {node(9)};
    job_.options.state_part_bytes = 32;  // a whole result
  }
  void hear_status(int from, std::uint64_t committed, std::uint64_t results_from) {
    learner_.on_status(node(from), {committed, true, false, results_from, {}}, out_);
  }
  void hear_both(std::uint64_t committed, std::uint64_t results_from) {
    for (const int from : {2, 3}) hear_status(from, committed, results_from);
  }
  // A member's answer to every read of that step.
  void give_result(std::uint64_t step) {
    const std::vector<float> values(8, static_cast<float>(step));
    const auto layout = collective::ChunkLayout::of(8);
    const Digest told = collective::result_digest_of(layout, values, {});
    const auto payload = SharedBytes::from(to_bytes(bytes_of(std::span<const float>(values))));
    learner_.on_result(node(2), ResultPart{step, 0, told, {}, payload}, out_);
    learner_.on_result(node(3), ResultPart{step, 0, told, {}, payload}, out_);
  }
  // The step of the next result; 0: there is none.
  std::uint64_t next() {
    const auto result = learner_.next(out_);
    return result ? result->step : 0;
  }
  void apply_next() {
    ASSERT_GT(next(), 0u);
    commit();
    apply();
  }
  void give_state(std::uint64_t step, int from = 2) {
    StateMeta meta{step, kState.size(), block_digest_of(kState), digest(2000 + step), {}};
    learner_.on_offer(node(from), job_.view().history(), meta, out_);
    learner_.on_part(node(from), {meta.digest, 0, SharedBytes::from(kState)}, out_);
  }
  std::vector<std::uint64_t> states_asked() const {
    std::vector<std::uint64_t> steps;
    for (const auto& [to, ask] : sent<StateAsk>(out_)) steps.push_back(ask.step);
    return steps;
  }
  std::optional<JoinAsk> join() {
    Actions out;
    learner_.join_tick(out);
    const auto asks = sent<JoinAsk>(out);
    return asks.empty() ? std::nullopt : std::optional(asks[0].second);
  }

  Learner learner_{job_};
};

}  // namespace gpunode::job
