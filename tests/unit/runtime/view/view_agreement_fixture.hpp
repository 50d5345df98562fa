// One acceptor of three, and what others say to it.
#pragma once

#include "runtime/view/view_agreement.hpp"

#include <memory>

#include <gtest/gtest.h>

#include "tests/support/ids.hpp"
#include "tests/support/twin_orders.hpp"
#include "tests/support/twin_proofs.hpp"

namespace gpunode::view {

using namespace std::chrono_literals;

inline View first_view() {
  View first;
  first.acceptors = {node(1), node(2), node(3)};
  first.tie = node(1);
  return first;
}

// As a view is by now that all nodes have voted for.
inline Votes votes_of(View view) {
  view = decided_by(first_view(), std::move(view), {node(1), node(2), node(3)}).view;
  return {view, {decided_by(first_view(), view, {node(1), node(2), node(3)})}, {}, {}, {}};
}

inline Votes votes_of(int acceptors) {
  View view;
  view.view_id = 3;
  for (int i = 1; i <= acceptors; ++i) {
    view.acceptors.push_back(node(i));
    view.members.push_back({node(i), 1});
  }
  view.tie = node(1);
  return votes_of(std::move(view));
}

// One acceptor whose disk answers when the test says so.
struct Acceptor {
  explicit Acceptor(int number, int of = 3, Votes votes = votes_of(3)) {
    if (of != 3) votes = votes_of(of);
    ViewAgreement::Options options;
    options.self = node(number);
    options.votes = std::move(votes);
    options.trust = {first_view(), std::make_shared<TwinSigner>(node(number)), false, {}};
    options.hear = [](const auto&) { return Hearsay{}; };
    options.follows = [this](const auto&, const auto&, const View&, bool) { return believes; };
    options.compose = [this](const std::vector<Promiser>& promisers, const Hearsay&, bool) {
      composed_of = promisers.size();
      View next = agreement->view();
      next.view_id += 1;
      next.previous = agreement->view().digest();
      next.base_step = static_cast<std::uint64_t>(composed_of);
      return Result<View>(next);
    };
    options.freeze = [this] {
      ++freezes;
      return Standing{};
    };
    options.suspected = [this](const NodeId& id) { return suspects.contains(id); };
    agreement = std::make_unique<ViewAgreement>(std::move(options));
  }
  ViewAgreement::Effects say(const NodeId& from, const VoteMessage& message, Time now = Time{}) {
    ViewAgreement::Effects out;
    agreement->on_message(now, from, message, out);
    return out;
  }
  ViewAgreement::Effects durable(std::uint64_t token, Time now = Time{}) {
    ViewAgreement::Effects out;
    agreement->on_persisted(now, token, out);
    return out;
  }
  ViewAgreement::Effects tick(Time now) {
    ViewAgreement::Effects out;
    agreement->on_tick(now, out);
    return out;
  }
  // Its turn has come, and node 2 hears it.
  ViewAgreement::Effects propose(Time now) {
    const ViewAgreement::Effects asked = tick(now);
    for (const auto& [to, message] : asked.sends)
      if (const auto* probe = std::get_if<Probe>(&message))
        return say(node(2), Echo{probe->nonce}, now);
    return asked;
  }
  // Likewise, after ballots of others; the one it proposes in.
  Ballot propose_after_others() {
    say(node(2), Refuse{{5, node(3)}});
    agreement->want_change(Time{});
    auto effects = propose(Time{} + 100ms);
    effects = durable(effects.persists.at(0).first, Time{} + 100ms);
    return std::get<Prepare>(effects.sends.at(0).second).ballot;
  }
  // To others.
  bool shows_why(const Accept& asked) const {
    return proves(TwinSigner(node(9)), agreement->view(), asked.ballot, asked.view, asked.proof,
                  [](const auto&, const auto&, const View&, bool) { return true; });
  }
  std::unique_ptr<ViewAgreement> agreement;
  std::set<NodeId> suspects;
  bool believes = true;  // that a view follows from the promises that are shown for it
  std::size_t composed_of = 0;
  int freezes = 0;
};

template <class T>
const T* sent(const ViewAgreement::Effects& effects, std::size_t index = 0) {
  if (index >= effects.sends.size()) return nullptr;
  return std::get_if<T>(&effects.sends[index].second);
}

inline View next_view(const Acceptor& acceptor, std::uint64_t base) {
  View next = acceptor.agreement->view();
  next.view_id += 1;
  next.previous = acceptor.agreement->view().digest();
  next.base_step = base;
  return next;
}

// What node `from` asks this acceptor to vote for, by the promises of nodes 1 and 3.
inline Accept asked_by(const Acceptor& acceptor, int from, std::uint64_t round,
                       std::uint64_t base) {
  const Ballot ballot{round, node(from)};
  return {ballot, next_view(acceptor, base),
          proof_by({{node(1), {}}, {node(3), {}}}, acceptor.agreement->view(), ballot)};
}

// What node `by` promises, and has accepted before in a ballot of that round.
inline Promise promise_of(
    const Acceptor& proposer, int by, const Ballot& ballot,
    std::optional<std::pair<std::uint64_t, std::uint64_t>> round_and_base = {}) {
  std::optional<AcceptedView> accepted;
  if (round_and_base) {
    const Accept asked = asked_by(proposer, by, round_and_base->first, round_and_base->second);
    accepted = AcceptedView{asked.ballot, asked.view, asked.proof};
  }
  return promised_by(node(by), proposer.agreement->view(), ballot, {}, std::move(accepted));
}

}  // namespace gpunode::view
