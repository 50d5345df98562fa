#include "runtime/view/view_proof.hpp"

#include <algorithm>
#include <utility>

#include "runtime/base/broken_rule.hpp"
#include "runtime/view/detail/fold.hpp"

namespace gpunode::view {

namespace {

constexpr std::size_t kMostLeftOut = 32;  // levels
constexpr std::size_t kMostLeftOutBytes = 1u << 20;

// The highest ballots in which promisers of the level have accepted this view, and another one.
struct Highest {
  Ballot same, other;
};

Highest highest_in(const Level& level, const View& view) {
  Highest highest;
  for (const Told& one : level.promises) {
    if (!one.accepted) continue;
    Ballot& of = one.accepted->view == view ? highest.same : highest.other;
    of = std::max(of, one.accepted->ballot);
  }
  return highest;
}

// A quorum has told it, each once, and nobody who is not asked.
bool is_heard(const View& current, const Level& level) {
  std::vector<NodeId> nodes;
  for (const Told& one : level.promises) {
    if (!current.has_part(one.node)) return false;
    if (std::find(nodes.begin(), nodes.end(), one.node) != nodes.end()) return false;
    nodes.push_back(one.node);
  }
  return is_quorum(current, nodes) || broken("half_quorum_without_tie");
}

bool is_genuine(const Signer& signer, const View& current, const Level& level) {
  return std::all_of(level.promises.begin(), level.promises.end(), [&](const Told& one) {
    return is_genuine(signer, current, level.ballot, one);
  });
}

std::vector<Promiser> promisers_of(const Level& level) {
  std::vector<Promiser> promisers;
  for (const Told& one : level.promises) promisers.push_back({one.node, one.standing});
  return promisers;
}

std::size_t bytes_of(const Level& level) {
  std::size_t bytes = sizeof level;
  for (const Told& one : level.promises) bytes += view::bytes_of(one);
  return bytes;
}

}  // namespace

Bytes Standing::bytes() const {
  detail::Fold fold;
  fold.value(boot);
  for (const bool flag : {has_memory, leaving, finished})
    fold.value(static_cast<std::uint8_t>(flag));
  fold.value(applied);
  fold.value(held);
  for (const Digest& one :
       {state_digest, applied_result_digest, held_result_digest, fingerprint, checkpoint_digest})
    fold.value(one);
  fold.value(checkpoint);
  fold.list(unreachable);
  fold.value(order);
  fold.list(plan);
  fold.list(paces);
  fold.list(learners);
  fold.value(floor);
  fold.value(static_cast<std::int64_t>(lease_left.count()));
  fold.value(met);
  return fold.result();
}

Bytes promise_bytes(const View& current, const Ballot& ballot, const std::optional<Claim>& accepted,
                    const Standing& standing) {
  detail::Fold fold;
  fold.add(current.bytes());
  fold.value(ballot);
  fold.value(static_cast<std::uint8_t>(accepted.has_value()));
  if (accepted) {
    fold.value(accepted->ballot);
    fold.add(accepted->view.bytes());
  }
  fold.add(standing.bytes());
  return fold.result();
}

bool is_genuine(const Signer& signer, const View& current, const Ballot& ballot, const Told& told) {
  return broken("promises_unsigned") ||
         signer.verify(told.node, kPromisePurpose,
                       promise_bytes(current, ballot, told.accepted, told.standing),
                       told.signature);
}

bool proves(const Signer& signer, const View& current, const Ballot& ballot, const View& next,
            const Proof& proof, const Follows& follows) {
  if (broken("proposals_unproven")) return true;
  if (proof.levels.empty() || proof.levels.front().ballot != ballot) return false;
  for (std::size_t at = 0; at < proof.levels.size(); ++at) {
    const Level& level = proof.levels[at];
    if (!is_heard(current, level) || !is_genuine(signer, current, level)) return false;
    const auto [same, other] = highest_in(level, next);
    if (std::max(same, other) >= level.ballot) return false;
    if (at + 1 == proof.levels.size())
      return same == Ballot{} && other == Ballot{} &&
             follows(promisers_of(level), proof.hearsay, next, at == 0);
    const Ballot& below = proof.levels[at + 1].ballot;
    if (same == Ballot{} || same < other || below >= level.ballot || below < other) return false;
  }
  return false;
}

Proof taken_over(Level level, const AcceptedView& accepted) {
  const Ballot other = highest_in(level, accepted.view).other;
  const auto& known = accepted.proof.levels;
  std::size_t from = known.size() - 1;
  while (from > 0 && known[from].ballot < other) --from;
  Proof proof{{std::move(level)}, accepted.proof.hearsay};
  proof.levels.insert(proof.levels.end(), known.begin() + static_cast<std::ptrdiff_t>(from),
                      known.end());
  keep_levels(proof, accepted.proof);
  return proof;
}

void keep_levels(Proof& proof, const Proof& other) {
  std::size_t bytes = 0;
  for (const Level& one : proof.left_out) bytes += bytes_of(one);
  const auto keep = [&](const Level& one) {
    const auto is_same = [&](const Level& known) { return known.ballot == one.ballot; };
    if (proof.left_out.size() >= kMostLeftOut || std::ranges::any_of(proof.levels, is_same) ||
        std::ranges::any_of(proof.left_out, is_same))
      return;
    const std::size_t more = bytes_of(one);
    if (bytes + more > kMostLeftOutBytes) return;
    bytes += more;
    proof.left_out.push_back(one);
  };
  for (const std::vector<Level>* levels : {&other.levels, &other.left_out})
    for (const Level& one : *levels) keep(one);
}

std::size_t bytes_of(const Told& told) {
  const Standing& where = told.standing;
  const std::size_t nodes =
      where.unreachable.size() + where.learners.size() + where.floor.holders.size();
  return sizeof told + nodes * sizeof(NodeId) + where.plan.size() * sizeof(std::uint16_t) +
         where.paces.size() * sizeof(std::uint64_t) +
         (told.accepted ? sizeof(View) + told.accepted->view.list_bytes() : 0);
}

std::size_t bytes_of(const Proof& proof) {
  const Hearsay& hearsay = proof.hearsay;
  std::size_t bytes = (hearsay.witnesses.size() + hearsay.barred.size()) * sizeof(NodeId) +
                      hearsay.joining.size() * sizeof(Joining);
  for (const auto* levels : {&proof.levels, &proof.left_out})
    for (const Level& level : *levels) bytes += bytes_of(level);
  return bytes;
}

}  // namespace gpunode::view
