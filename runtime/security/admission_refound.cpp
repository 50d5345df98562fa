// A new start from the recovery key: for a cluster whose founder, or whoever else let others in, is lost
// or in wrong hands. What changes is one signed record for each node that is put out, which names those
// of its admissions that stand: whoever has it judges alike, no renewal has to reach anybody, and
// whoever holds the keys of such a node signs nothing more that counts.
#include "runtime/security/recovery_key.hpp"

#include "runtime/security/admission.hpp"

#include <algorithm>
#include <iterator>

namespace gpunode::security {

namespace {

constexpr std::size_t kMostTold = 1024;  // admissions at once; others have them already

}  // namespace

std::set<NodeId> Admissions::members(WallTime now) const {
  std::set<NodeId> members;
  snapshot()->for_each([&](const NodeId& node, const Standing& standing) {
    if (standing.is_member(now)) members.insert(node);
  });
  return members;
}

// Where more stand than can be named, those that were seen last do.
Revocation Admissions::disown(const RecoveryKey& key, const NodeId& node, const RefoundOrder& order,
                              WallTime now) const {
  const std::set<NodeId> without(order.without.begin(), order.without.end());
  std::vector<std::pair<WallTime, std::array<std::byte, 32>>> stand;
  if (!order.with_admitted)
    for (const auto& [other, records] : admissions_)
      for (const Held& one : records)
        if (one.counts && one.record.issuer == node && !without.contains(other))
          stand.emplace_back(last_seen(other).value_or(WallTime{}), one.record.digest());
  std::ranges::sort(stand, std::greater());
  if (stand.size() > Revocation::kMaxKept) stand.resize(Revocation::kMaxKept);
  Revocation revocation;
  revocation.cluster = cluster_.id;
  revocation.node = node;
  revocation.reason = "the cluster was founded anew";
  revocation.issued = now;
  for (const auto& [seen, digest] : stand) revocation.kept.push_back(digest);
  std::ranges::sort(revocation.kept);
  revocation.sign(key.signer());
  return revocation;
}

Result<Admissions::Refounding> Admissions::refound_here(const RecoveryKey& key,
                                                        const RefoundOrder& order, WallTime now) {
  const std::set<NodeId> before = members(now);
  const std::set<NodeId> without(order.without.begin(), order.without.end());
  // Whom they put out is back before it is looked at who stands.
  drop_revocations([&](const Revocation& one) { return without.contains(one.issuer); });
  settle_all();
  Refounding done;
  for (const NodeId& node : without)
    done.added.revocations.push_back(disown(key, node, order, now));
  Admission own;
  own.cluster = cluster_.id;
  own.node = order.self;
  own.sign_key = order.sign_key;
  own.name = order.name;
  own.rights = kAllRights;
  own.issued = now;
  own.sign(key.signer());
  if (const Judged judged = judge(own); judged.verdict == Verdict::bad)
    return {ErrorCode::invalid_argument, judged.why};
  else if (judged.verdict == Verdict::good)
    insert(own);
  done.added.admissions.push_back(std::move(own));
  for (const Revocation& revocation : done.added.revocations) {
    const Judged judged = judge(revocation);
    if (judged.verdict == Verdict::bad) return {ErrorCode::invalid_argument, judged.why};
    if (judged.verdict == Verdict::good) insert(revocation);
  }
  publish();
  for (const auto& [node, records] : admissions_)
    for (const Held& one : records)
      if (one.counts && without.contains(one.record.issuer) &&
          done.added.admissions.size() < kMostTold)
        done.added.admissions.push_back(one.record);
  done.list = snapshot();
  const std::set<NodeId> after = members(now);
  done.put_out.assign(without.begin(), without.end());
  done.members.assign(after.begin(), after.end());
  std::ranges::set_difference(after, before, std::back_inserter(done.restored));
  std::ranges::set_difference(before, after, std::back_inserter(done.dropped));
  std::erase_if(done.dropped, [&](const NodeId& node) { return without.contains(node); });
  return done;
}

Result<Admissions::Refounding> Admissions::refound(const RecoveryKey& key,
                                                   const RefoundOrder& order, WallTime now) {
  if (key.public_key() != cluster_.recovery)
    return {ErrorCode::permission_denied, "this recovery key is of another cluster"};
  for (const NodeId& node : order.without) {
    if (node == order.self)
      return {ErrorCode::invalid_argument,
              "this node would put itself out: order it on one that is to stay"};
    if (!admissions_.contains(node))
      return {ErrorCode::not_found, "no node " + node.short_text() + " was ever admitted"};
  }
  Admissions copy(cluster_);
  if (auto taken = copy.believe(all()); !taken) return taken.error();
  auto tried = copy.refound_here(key, order, now);
  if (!tried) return tried.error();
  if (!std::ranges::binary_search(tried->members, order.self))
    return {ErrorCode::permission_denied,
            "this node was put out by another one that is to stay: order it on a node that is a "
            "member"};
  if (order.check) return tried;
  if (auto added = add({{tried->added.admissions.front()}, {}, tried->added.revocations}); !added)
    return added.error();
  return tried;
}

}  // namespace gpunode::security
