// A core that lives among liars: random typed messages, many of them plausible, in all phases, and
// a driver that answers late, wrongly or not at all.
#pragma once

#include "runtime/job/job_codec.hpp"
#include "tests/unit/runtime/job/hostile_liar.hpp"

namespace gpunode::job {

class HostileLife : private Liar {
 public:
  explicit HostileLife(std::uint64_t seed) : Liar(seed) {
    JobCore::Options options = context_options();
    options.seed = seed;
    options.state_bytes = blob_.size();
    kind_ = static_cast<int>(rng_.below(5));
    if (kind_ == 1) options.candidates = {node(1)};
    if (kind_ == 2) options.candidates = {node(2), node(3)};
    if (kind_ == 3) {
      options.candidates = {node(2)};
      options.witness_only = true;
    }
    if (kind_ == 4) options.goes_on_alone = true;
    options.wanted_nodes = static_cast<std::uint32_t>(1 + rng_.below(4));
    if (chance(30)) options.checkpoint = {4, block_digest_of(blob_), {}, {}};
    if (chance(20)) options.routing = {.route = collective::grouped_route};
    if (chance(10)) options.routing = {.route = collective::ring_route, .one_sum = true};
    auto made = JobCore::create(std::move(options));
    core_.emplace(std::move(*made));
    input([&](Actions& out) { core_->on_start(now_, out); });
    if (kind_ == 2) input([&](Actions& out) { core_->request_join(now_, out); });
  }

  void run(int events) {
    for (int i = 0; i < events; ++i) event();
  }
  // What is drawn from here on.
  void redraw(std::uint64_t seed) { rng_ = Rng(seed); }
  std::size_t most_actions() const { return most_; }
  std::uint64_t views() const { return views_; }
  std::uint64_t committed() const { return core_->committed(); }
  std::uint32_t phases() const { return phases_; }

 private:
  void say() {
    const NodeId from = somebody();
    view::ViewName name = core_->view().name();
    if (chance(12)) name = {history(), chance(50) ? name.view_id + rng_.below(3) : number()};
    JobMessage message{{1, 1}, name, chance(90) ? Boot{1} : number(), body(from)};
    if (chance(50)) {
      const auto encoded = encode_message(message);
      auto decoded = decode_message(encoded.body, encoded.payload, {1, 1}, 8);
      if (!decoded) return;
      message = std::move(*decoded);
    }
    input([&](Actions& out) { core_->on_message(now_, from, message, out); });
  }
  template <class Do>
  void input(Do act) {
    Actions out;
    act(out);
    most_ = std::max(most_, out.size());
    phases_ |= 1u << static_cast<unsigned>(core_->status(now_).phase);
    for (const Action& one : out) {
      if (std::get_if<ViewInstalled>(&one)) ++views_;
      if (const auto* send = std::get_if<Send>(&one)) {
        if (chance(30)) (void)encode_message(send->message);
        if (const auto* step = std::get_if<StepMessage>(&send->message.body)) {
          plan_ = step->plan;
          if (const auto* told = std::get_if<collective::Done>(&step->message)) done_ = *told;
        }
        if (const auto* vote = std::get_if<Vote>(&send->message.body)) {
          if (const auto* prepare = std::get_if<view::Prepare>(&vote->message))
            ballot_ = prepare->ballot;
          if (const auto* accept = std::get_if<view::Accept>(&vote->message)) {
            ballot_ = accept->ballot;
            asked_ = accept->view;
          }
          if (const auto* probe = std::get_if<view::Probe>(&vote->message)) nonce_ = probe->nonce;
        }
        continue;
      }
      work_.push_back(one);
    }
  }
  void work() {
    if (work_.empty()) return;
    const Action one = std::move(work_.front());
    work_.erase(work_.begin());
    if (const auto* write = std::get_if<Persist>(&one))
      input([&](Actions& out) { core_->on_persisted(now_, write->token, out); });
    if (const auto* apply = std::get_if<Apply>(&one))
      input([&](Actions& out) {
        core_->on_applied(now_, apply->step, chance(80) ? block_digest_of(blob_) : some_digest(),
                          out);
      });
    if (const auto* load = std::get_if<InstallState>(&one))
      input([&](Actions& out) { core_->on_state_installed(now_, load->step, out); });
    if (const auto* load = std::get_if<RestoreState>(&one)) {
      if (chance(80))
        input([&](Actions& out) { core_->on_state_installed(now_, load->step, out); });
      else
        input([&](Actions& out) {
          core_->on_checkpoint_lost(now_, {core_->view().history(), load->step}, {}, out);
        });
    }
    if (const auto* read = std::get_if<ReadState>(&one))
      input([&](Actions& out) {
        core_->on_state_read(now_, read->token, SharedBytes::from(blob_), out);
      });
    if (const auto* read = std::get_if<ReadSaved>(&one))
      input([&](Actions& out) {
        core_->on_saved_read(now_, read->token,
                             chance(80) ? SharedBytes::from(blob_) : SharedBytes{}, out);
      });
    if (const auto* keep = std::get_if<KeepCopy>(&one)) core_->set_checkpoint(keep->checkpoint);
    if (const auto* save = std::get_if<SaveState>(&one))
      core_->set_checkpoint({save->step, core_->state_digest(), {}, core_->view().history()});
    if (const auto* compute = std::get_if<Compute>(&one)) {
      for (const collective::TreeNode& part : compute->nodes) {
        const auto sum = std::make_shared<const std::vector<float>>(8, 1.0f);
        input([&](Actions& out) {
          core_->on_partial(
              now_, {compute->id, compute->step, part, sum, {{1, 1}, 4}, 0, 8, {100, 0, 1, 1}},
              out);
        });
      }
    }
  }
  void event() {
    const std::uint64_t what = rng_.below(100);
    if (what < 60) return say();
    if (what < 80) return work();
    if (what < 95) {
      now_ += chance(90) ? Duration(std::chrono::milliseconds(1 + rng_.below(200)))
                         : Duration(std::chrono::seconds(rng_.below(12)));
      return input([&](Actions& out) { core_->on_tick(now_, out); });
    }
    const NodeId who = somebody();
    switch (rng_.below(7)) {
      case 0:
      case 1: {
        constexpr PeerHealth kHealths[] = {PeerHealth::alive, PeerHealth::suspect,
                                           PeerHealth::dead};
        const std::uint64_t seen = rng_.below(5);
        if (seen == 0 || seen == 4)
          return input([&](Actions& out) {
            core_->on_link(now_, who, seen == 0 ? LinkState::up : LinkState::refused, out);
          });
        return input([&](Actions& out) { core_->on_peer(now_, who, kHealths[seen - 1], out); });
      }
      case 2:
        return input([&](Actions& out) { core_->on_bulk_reset(now_, who, out); });
      case 3:
        core_->set_spares({node(2), node(3), node(9)});
        core_->set_hints({node(2), node(3), node(9)});
        return;
      case 4:
        if (chance(20)) return input([&](Actions& out) { core_->request_leave(now_, 5s, out); });
        return input([&](Actions& out) { core_->request_join(now_, out); });
      case 5:
        return input([&](Actions& out) { (void)core_->take_order(now_, some_order(), out); });
      default:
        core_->set_checkpoint(
            {core_->committed(), core_->state_digest(), {}, core_->view().history()});
    }
  }

  int kind_ = 0;
  std::vector<Action> work_;
  std::size_t most_ = 0;
  std::uint64_t views_ = 0;
  std::uint32_t phases_ = 0;
};

}  // namespace gpunode::job
