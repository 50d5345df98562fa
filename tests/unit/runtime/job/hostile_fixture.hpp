// Who lies to a core, and a core to lie to.
#pragma once

#include <optional>
#include <utility>

#include "tests/unit/runtime/job/context_fixture.hpp"

namespace gpunode::job {

constexpr std::uint64_t kHuge = ~std::uint64_t{0};
constexpr int kStranger = 9;  // has a key of the cluster, and no part in the job

// A job on one node; its driver answers at once, and its steps are computed by `compute`.
class LoneCore {
 public:
  LoneCore() {
    JobCore::Options options = context_options();
    options.candidates = {node(1)};
    options.wanted_nodes = 1;
    auto made = JobCore::create(std::move(options));
    core_.emplace(std::move(*made));
    feed([&](Actions& out) { core_->on_start(now_, out); });
    for (int i = 0; i < 20; ++i) tick();
  }
  template <class Input>
  void feed(Input input) {
    Actions out;
    input(out);
    while (!out.empty()) {
      Actions more;
      for (const Action& one : out) {
        all_.push_back(one);
        if (const auto* write = std::get_if<Persist>(&one))
          core_->on_persisted(now_, write->token, more);
        if (const auto* apply = std::get_if<Apply>(&one))
          core_->on_applied(now_, apply->step, digest(100 + apply->step), more);
        if (const auto* load = std::get_if<InstallState>(&one))
          core_->on_state_installed(now_, load->step, more);
        if (const auto* compute = std::get_if<Compute>(&one)) wish_ = *compute;
      }
      out = std::move(more);
    }
  }
  void tick(Duration time = 50ms) {
    now_ += time;
    feed([&](Actions& out) { core_->on_tick(now_, out); });
  }
  void hear(int from, const view::ViewName& view, JobBody body) {
    feed([&](Actions& out) {
      core_->on_message(now_, node(from), {{1, 1}, view, 1, std::move(body)}, out);
    });
  }
  void compute() {
    const Compute wish = std::exchange(wish_, Compute{});
    const auto sum = std::make_shared<const std::vector<float>>(8, 1.0f);
    for (const collective::TreeNode& one : wish.nodes)
      feed([&](Actions& out) {
        core_->on_partial(
            now_, {wish.id, wish.step, one, sum, {{1, 1}, 4}, 0, 8, {100'000, 0, 4, 1}}, out);
      });
  }
  JobCore& core() { return *core_; }
  const Actions& all() const { return all_; }
  Time now() const { return now_; }

 private:
  std::optional<JobCore> core_;
  Actions all_;
  Compute wish_;
  Time now_ = Time{} + 1h;
};

}  // namespace gpunode::job
