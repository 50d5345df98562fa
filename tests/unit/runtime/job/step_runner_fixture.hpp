// A step runner on node 1 and one all-reduce as its peer, which the tests of its steps share.
#pragma once

#include "runtime/job/step_runner.hpp"
#include "tests/unit/runtime/job/context_fixture.hpp"

namespace gpunode::job {

inline constexpr collective::TreeNode kOurs{1, 0}, kTheirs{1, 1};  // halves of four slices

inline collective::SharedFloats floats(float value) {
  return std::make_shared<const std::vector<float>>(8, value);
}

// Members 1 and 2 compute half of each step, from step 5 on; node 1 owns the only chunk.
class StepRunnerTest : public ContextTest {
 protected:
  StepRunnerTest() {
    install(view_of_two());
    stand_at(4);
    runner_.follow_plan_of(job_.view());
  }
  view::View view_of_two() {
    view::View view = next_view({1, 2});
    view.base_step = 4;
    view.plan = {0, 0, 1, 1};
    return view;
  }
  // The next step begins here and at the other member.
  Compute begin() {
    runner_.begin(out_);
    collective::AllReduce::Options options;
    options.rank = 1;
    options.member_count = 2;
    options.tree = job_.options.tree;
    options.plan = runner_.plan().slices();
    options.layout = collective::ChunkLayout::of(8);
    options.add = job_.options.add;
    peer_.emplace(std::move(options), job_.now);
    return of<Compute>(out_).back();
  }
  PartialRange partial(std::uint64_t order, std::uint64_t step = 5) const {
    return {order, step, kOurs, floats(1), {digest(1), 2}, 0, 8, {}};
  }
  bool compute(std::uint64_t order) {
    return runner_.on_partial(partial(order, runner_.step()), true, out_);
  }
  void compute_at_peer() {
    std::vector<collective::SendTo> says;
    peer_->on_partial(job_.now, kTheirs, floats(2), {digest(2), 2}, says);
    hear(says);
  }
  void hear(const std::vector<collective::SendTo>& says) {
    for (const collective::SendTo& one : says) EXPECT_TRUE(hear(runner_.step(), one.message));
  }
  Result<void> hear(std::uint64_t step, const collective::ExchangeMessage& message) {
    return runner_.on_message(node(2), 1, {step, runner_.plan().digest(), message}, out_);
  }
  // The peer gets all that was sent, and answers, until nobody has anything to say.
  void talk() {
    while (!sent<StepMessage>(out_).empty()) {
      std::vector<collective::SendTo> says;
      for (const auto& [to, message] : sent<StepMessage>(std::exchange(out_, {})))
        peer_->on_message(job_.now, 0, message.message, says);
      hear(says);
    }
  }
  void complete_step() {
    const Compute asked = begin();
    if (!asked.nodes.empty()) compute(asked.id);
    compute_at_peer();
    talk();
    ASSERT_TRUE(runner_.is_complete());
  }
  std::uint32_t commit_step() {
    const collective::AllReduce& done = runner_.end();
    commit();
    return runner_.on_commit(done.times());
  }
  template <class T>
  std::size_t said() const {
    std::size_t count = 0;
    for (const auto& [to, one] : sent<StepMessage>(out_))
      count += std::holds_alternative<T>(one.message) ? 1 : 0;
    return count;
  }

  Watchdog watchdog_{{.multiple = 8, .least = 10s, .first = 10s}};
  StepRunner runner_{job_, watchdog_};
  std::optional<collective::AllReduce> peer_;
};

}  // namespace gpunode::job
