// What the tests of a job core's parts share: a context as the core would keep it, on node 1, with
// a clock that stands still until it is told, and the views to stand in.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/job/detail/job_context.hpp"
#include "tests/support/ids.hpp"
#include "tests/support/twin_orders.hpp"

namespace gpunode::job {

using namespace std::chrono_literals;

inline Digest digest(std::uint64_t value) {
  return {value, value};
}

// An order of who may give one in these tests; of two the one of the higher number counts.
constexpr int kOwner = 100;
inline view::SignedOrder ordered(view::OrderKind kind, std::int64_t number = 1,
                                 std::uint64_t step = 0) {
  return view::order_of({1, 1}, node(kOwner), kind, number, step);
}

// Of node 1, in a job of ten steps for three nodes.
inline JobCore::Options context_options() {
  JobCore::Options options;
  options.self = {node(1), 1};
  options.signer = std::make_shared<view::TwinSigner>(node(1));
  options.job = {1, 1};
  options.may_order = view::orders_of([](const NodeId& by) { return by == node(kOwner); });
  for (int i = 1; i <= 3; ++i) options.candidates.push_back(node(i));
  options.wanted_nodes = 3;
  options.total_steps = 10;
  options.tree = collective::Tree::of_slices(4);
  options.element_count = 8;
  options.add = [](float* out, std::span<const float* const> inputs, std::size_t count) {
    std::fill_n(out, count, 0.0f);
    for (const float* input : inputs)
      for (std::size_t i = 0; i < count; ++i) out[i] += input[i];
  };
  options.fingerprint = digest(77);
  options.initial_state_digest = digest(3);
  options.state_bytes = 20;
  options.state_part_bytes = 16;
  return options;
}

template <class T>
std::vector<T> of(const Actions& actions) {
  std::vector<T> found;
  for (const Action& action : actions)
    if (const auto* one = std::get_if<T>(&action)) found.push_back(*one);
  return found;
}

// What was sent of one kind, and to whom.
template <class T>
std::vector<std::pair<NodeId, T>> sent(const Actions& actions) {
  std::vector<std::pair<NodeId, T>> found;
  for (const Send& one : of<Send>(actions))
    if (const auto* body = std::get_if<T>(&one.message.body)) found.emplace_back(one.to, *body);
  return found;
}

template <class T>
std::vector<NodeId> receivers(const Actions& actions) {
  std::vector<NodeId> nodes;
  for (const auto& [to, body] : sent<T>(actions)) nodes.push_back(to);
  return nodes;
}

inline bool reports(const Actions& actions, std::string_view words) {
  const auto lines = of<Report>(actions);
  return std::any_of(lines.begin(), lines.end(),
                     [&](const Report& one) { return one.text.find(words) != std::string::npos; });
}

class ContextTest : public ::testing::Test {
 protected:
  ContextTest() { pass(1h); }  // what never was is long ago

  // The view after the present one, of these members; the witnesses vote beside them.
  view::View next_view(const std::vector<int>& members, const std::vector<int>& witnesses = {}) {
    view::View view = job_.view();
    ++view.view_id;
    view.fingerprint = job_.options.fingerprint;
    view.members.clear();
    view.acceptors.clear();
    for (const int member : members) {
      view.members.push_back({node(member), 1});
      view.acceptors.push_back(node(member));
    }
    for (const int witness : witnesses) view.acceptors.push_back(node(witness));
    view.tie = view.acceptors.front();
    return view;
  }

  // Likewise, of a history that began at this step.
  view::View next_history(const std::vector<int>& members, std::uint64_t base_step) {
    view::View view = next_view(members);
    view.base_step = base_step;
    view.turns.push_back({view.view_id, base_step, view.view_id, view::Turn::Kind::split});
    return view;
  }

  // Installs it, as far as the context is concerned, and gives the one before.
  view::View install(view::View view) {
    const view::View before = job_.view();
    view::ViewAgreement::Effects effects;
    const std::vector<NodeId> voters = before.acceptors;
    job_.agreement.adopt(job_.agreement.with(view::decided_by(before, std::move(view), voters)),
                         effects);
    job_.installed_at = job_.now;
    job_.member = job_.state_ready = job_.view().has_member(job_.options.self);
    return before;
  }
  view::View enter(const std::vector<int>& members, const std::vector<int>& witnesses = {}) {
    return install(next_view(members, witnesses));
  }

  // The state here is the one after this step, applied, and of the view's history.
  void stand_at(std::uint64_t step) {
    job_.progress.load({step, digest(1000 + step), {}, job_.view().history()}, digest(2000 + step));
  }
  // One step more; the state is not updated yet.
  void commit() { job_.progress.commit(digest(2000 + job_.progress.committed() + 1), {}); }
  void apply() { job_.progress.apply(digest(1000 + job_.progress.committed())); }

  // Another acceptor, or a member, asks for this node's promise.
  void freeze() {
    const auto everybody = job_.everybody();
    const NodeId& proposer =
        *std::find_if(everybody.begin(), everybody.end(),
                      [this](const NodeId& one) { return one != job_.self(); });
    view::ViewAgreement::Effects effects;
    job_.agreement.on_message(job_.now, proposer, view::Prepare{{1, proposer}}, effects);
    ASSERT_TRUE(job_.agreement.frozen());
  }
  void want_change() { job_.agreement.want_change(job_.now); }

  void hear(int number) { job_.peers.on_message(job_.now, node(number)); }
  void die(int number) { job_.peers.on_health(job_.now, node(number), PeerHealth::dead); }
  void pass(Duration time) { job_.now += time; }

  // Before the first view is agreed.
  struct Forming {
    JobContext job{context_options(), agreement_options()};
  };

  JobContext job_{context_options(), agreement_options()};
  Actions out_;

 private:
  static view::ViewAgreement::Options agreement_options() {
    view::ViewAgreement::Options options;
    options.self = node(1);
    options.votes.view.job = {1, 1};
    for (int i = 1; i <= 3; ++i) options.votes.view.acceptors.push_back(node(i));
    options.votes.view.tie = node(1);
    options.trust = {options.votes.view, std::make_shared<view::TwinSigner>(node(1)), false, {}};
    options.hear = [](const auto&) { return view::Hearsay{}; };
    options.follows = [](const auto&, const auto&, const auto&, bool) { return false; };
    options.compose = [](const auto&, const auto&, bool) -> Result<view::View> {
      return Error{ErrorCode::unavailable, "no view is composed in these tests"};
    };
    options.freeze = [] { return view::Standing{}; };
    options.suspected = [](const NodeId&) { return false; };
    return options;
  }
};

}  // namespace gpunode::job
