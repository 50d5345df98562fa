#include "runtime/view/view_chain.hpp"

#include <algorithm>
#include <set>

#include "runtime/base/broken_rule.hpp"
#include "runtime/view/detail/fold.hpp"

namespace gpunode::view {

namespace {

// More changes of most voters than a job sees. What is older is dropped, and then a node that never
// heard of the job cannot come in any more.
constexpr std::size_t kMostLinks = 1024;
constexpr std::size_t kBytesAtOnce = 256u << 10;

// Acceptors and their tie-breaker.
bool decides(std::span<const NodeId> voters, const NodeId& tie, std::span<const NodeId> yes) {
  if (!broken("half_quorum_without_tie")) return is_quorum(voters, tie, yes);
  const auto count = std::count_if(voters.begin(), voters.end(), [&](const NodeId& node) {
    return std::find(yes.begin(), yes.end(), node) != yes.end();
  });
  return 2 * static_cast<std::size_t>(count) >= voters.size() && count > 0;
}

// Those of `first` are looked at first: anybody can add a thousand true ones of keys of its own.
bool is_signed(const Signer& signer, const DecidedView& decided, std::string_view purpose,
               const std::vector<NodeId>& first = {}) {
  if (broken("views_unsigned")) return true;
  const Bytes message = vote_bytes(decided);
  const auto is_good = [&](const Seal& seal) {
    return signer.verify(seal.node, purpose, message, seal.signature);
  };
  const auto is_first = [&](const Seal& seal) {
    return std::ranges::find(first, seal.node) != first.end();
  };
  return std::ranges::all_of(decided.seals,
                             [&](const Seal& one) { return !is_first(one) || is_good(one); }) &&
         std::ranges::all_of(decided.seals,
                             [&](const Seal& one) { return is_first(one) || is_good(one); });
}

// Whether a quorum of `known`, by what it was, has signed it.
bool is_vouched_for(const View& known, const DecidedView& decided) {
  return decides(known.acceptors, known.tie, decided.signers());
}

class Judge {
 public:
  Judge(const Trust& trust, const ViewChain& own, bool astray) : trust_(trust), astray_(astray) {
    known_.push_back(&trust.first);
    for (const DecidedView& one : own) known_.push_back(&one.view);
  }
  void add(const View& proven) { known_.push_back(&proven); }

  bool knows(const View& view) const {
    return std::any_of(known_.begin(), known_.end(), [&](const View* one) { return *one == view; });
  }
  bool believes(const DecidedView& next) const {
    if (next.view.job != trust_.first.job || next.seals.size() > next.voters.size() + 1)
      return false;
    return next.is_split() ? may_split(next) : follows(next);
  }

 private:
  bool may_split(const DecidedView& next) const {
    if (next.seals.size() != 1) return false;
    const NodeId& by = next.seals.front().node;
    const bool has_part = std::any_of(known_.begin(), known_.end(),
                                      [&](const View* one) { return one->has_part(by); });
    const bool ordered = next.view.turns.back().kind == Turn::Kind::ordered;
    const bool may = ordered ? is_order(next.view, OrderKind::recover)
                             : trust_.parts_go_on && has_part && keeps_orders(next.view);
    return may && is_signed(*trust_.signer, next, kSplitPurpose);
  }

  // The order that the view carries is one of those that may give it, and later than all that the
  // views on the way to it have carried out.
  bool is_order(const View& view, std::optional<OrderKind> kind) const {
    if (broken("orders_unsigned")) return true;
    if (!view.order || view.order->job != view.job || (kind && view.order->kind != *kind))
      return false;
    return std::all_of(known_.begin(), known_.end(),
                       [&](const View* one) {
                         return !lies_behind(*one, view) || is_later(*view.order, one->order);
                       }) &&
           trust_.may_order && trust_.may_order(*view.order, OrderUse::agreed);
  }
  // What goes on by itself carries what a view before it did, or an order that may be given.
  bool keeps_orders(const View& view) const {
    return std::any_of(known_.begin(), known_.end(),
                       [&](const View* one) { return one->order == view.order; }) ||
           is_order(view, {});
  }

  bool follows(const DecidedView& next) const {
    if (!decides(next.voters, next.tie, next.signers())) return false;
    for (auto at = known_.rbegin(); at != known_.rend(); ++at) {
      const View& earlier = **at;
      // Not apart by a split, and yet not on the way to it: nothing that a quorum decided.
      const bool apart = parted_by(earlier, next.view) != 0 || parted_by(next.view, earlier) != 0;
      if (!lies_behind(earlier, next.view) || earlier.generation() != next.view.generation()) {
        if (apart || astray_) continue;
        return false;
      }
      if (is_vouched_for(earlier, next) && binds(earlier, next))
        return is_signed(*trust_.signer, next, kVotePurpose, earlier.acceptors);
      if (!astray_) return false;
    }
    return false;
  }

  // Who stands right before it knows who its voters were.
  static bool binds(const View& earlier, const DecidedView& next) {
    if (next.view.view_id != earlier.view_id + 1) return true;
    return next.view.previous == earlier.digest() && next.voters == earlier.acceptors &&
           next.tie == earlier.tie;
  }

  const Trust& trust_;
  bool astray_;
  std::vector<const View*> known_;  // oldest first
};

// Whether the view in the middle can be left out.
bool is_spare(const View& before, const DecidedView& middle, const DecidedView& after) {
  return !middle.is_split() && !after.is_split() &&
         before.generation() == after.view.generation() && is_vouched_for(before, after);
}

std::size_t size_of(const DecidedView& one) {
  return sizeof one + bytes_of(one.proof) + one.view.list_bytes() +
         one.voters.size() * sizeof(NodeId) + one.seals.size() * sizeof(Seal);
}

// Up to which number the views of this name's history and those on the way to `newest` are the same.
std::uint64_t shared_up_to(const View& newest, const ViewName& known) {
  const std::size_t turn = known.history.turn;
  if (turn > newest.turns.size()) return 0;
  if (turn > 0 && newest.turns[turn - 1].mark != known.history.mark) return 0;
  if (turn == newest.turns.size()) return known.view_id;
  return std::min(known.view_id, newest.turns[turn].view_id - 1);
}

}  // namespace

bool DecidedView::is_split() const {
  return !view.turns.empty() && view.turns.back().is_split() &&
         view.turns.back().view_id == view.view_id;
}

std::vector<NodeId> DecidedView::signers() const {
  std::vector<NodeId> nodes;
  for (const Seal& seal : seals) nodes.push_back(seal.node);
  return nodes;
}

namespace {

Bytes vote_bytes(const Ballot& ballot, std::span<const NodeId> voters, const NodeId& tie,
                 const View& next) {
  detail::Fold fold;
  fold.value(ballot);
  fold.list(voters);
  fold.value(tie);
  fold.add(next.bytes());
  return fold.result();
}

}  // namespace

Bytes vote_bytes(const Ballot& ballot, const View& before, const View& next) {
  return vote_bytes(ballot, before.acceptors, before.tie, next);
}

Bytes vote_bytes(const DecidedView& decided) {
  return vote_bytes(decided.ballot, decided.voters, decided.tie, decided.view);
}

ViewChain extended(const View& first, ViewChain chain, DecidedView next) {
  chain.push_back(std::move(next));
  if (chain.size() > kKeptWhole + 1) {
    const std::size_t at = chain.size() - 1 - kKeptWhole;
    const View& before = at == 1 ? first : chain[at - 2].view;
    if (is_spare(before, chain[at - 1], chain[at]))
      chain.erase(chain.begin() + static_cast<std::ptrdiff_t>(at) - 1);
  }
  if (chain.size() > kKeptWhole) chain[chain.size() - 1 - kKeptWhole].proof = {};
  bound_proofs(chain, kMostProofBytes / 4);
  if (chain.size() > kMostLinks) chain.erase(chain.begin());
  return chain;
}

void bound_proofs(ViewChain& chain, std::size_t bytes) {
  std::size_t sum = 0;
  for (auto link = chain.rbegin(); link != chain.rend(); ++link) {
    sum += bytes_of(link->proof);
    if (sum > bytes) link->proof = {};
  }
}

Proven prove(const Trust& trust, const ViewChain& own, const ViewChain& told, bool astray) {
  Proven proven;
  Judge judge(trust, own, astray);
  bool last = false;
  for (const DecidedView& one : told) {
    last = judge.knows(one.view);
    if (last) continue;
    last = judge.believes(one);
    if (!last) continue;
    judge.add(one.view);
    proven.on_the_way.push_back(one);
  }
  if (!last) return proven;
  const View& newest = told.back().view;
  ViewChain row;
  for (const DecidedView& one : own)
    if (lies_behind(one.view, newest) || one.view == newest) row.push_back(one);
  for (const DecidedView& one : proven.on_the_way)
    if (lies_behind(one.view, newest) || one.view == newest) row.push_back(one);
  std::stable_sort(row.begin(), row.end(), [](const auto& left, const auto& right) {
    return left.view.view_id < right.view.view_id;
  });
  // Both sides of a fork are no way to anywhere.
  const auto is_fork = [](const DecidedView& one, const DecidedView& next) {
    return one.view.view_id == next.view.view_id && one.view != next.view;
  };
  if (std::ranges::adjacent_find(row, is_fork) != row.end()) return proven;
  for (DecidedView& one : row)
    proven.chain = extended(trust.first, std::move(proven.chain), std::move(one));
  return proven;
}

ViewChain since(const ViewChain& chain, const ViewName& known) {
  ViewChain told;
  if (chain.empty()) return told;
  const std::uint64_t shared = shared_up_to(chain.back().view, known);
  std::size_t bytes = size_of(chain.back());
  for (const DecidedView& one : chain) {
    if (&one == &chain.back()) break;
    if (one.view.view_id <= shared) continue;
    bytes += size_of(one);
    if (bytes > kBytesAtOnce) break;
    told.push_back(one);
  }
  told.push_back(chain.back());
  return told;
}

}  // namespace gpunode::view
