#include "runtime/security/admission.hpp"

#include "runtime/security/crypto.hpp"
#include "runtime/security/detail/layout.hpp"

#include <algorithm>

namespace gpunode::security {

namespace {

constexpr std::string_view kPurpose = "gpunode admission 2";
constexpr std::string_view kRevocationPurpose = "gpunode revocation 2";

WallTime cut(WallTime time) {
  return std::chrono::time_point_cast<std::chrono::milliseconds>(time);
}

bool is_later(const Revocation& order, const Revocation& than) {
  return std::tie(order.issued, order.signature) > std::tie(than.issued, than.signature);
}

// Of two by one issuer the later one stands for both, where it gives all that the other gives.
bool stands_for(const Admission& later, const Admission& record) {
  return later.issuer == record.issuer && later.issued >= record.issued &&
         (later.rights & record.rights) == record.rights &&
         (later.expires == WallTime{} ||
          (record.expires != WallTime{} && later.expires >= record.expires));
}

}  // namespace

Bytes Admission::signed_bytes() const {
  detail::LayoutWriter writer;
  writer.raw(cluster.value);
  writer.raw(node.value);
  writer.raw(sign_key.value);
  writer.text(name);
  writer.u32(rights);
  writer.time(issued);
  writer.time(expires);
  writer.raw(issuer.value);
  return writer.take();
}

void Admission::sign(const Identity& by) {
  issued = cut(issued);
  expires = cut(expires);
  issuer = by.id();
  signature = by.sign(kPurpose, signed_bytes());
}

std::array<std::byte, 32> Admission::digest() const {
  return sha256(signed_bytes());
}

Bytes Revocation::signed_bytes() const {
  detail::LayoutWriter writer;
  writer.raw(cluster.value);
  writer.raw(node.value);
  writer.text(reason);
  writer.u32(static_cast<std::uint32_t>(kept.size()));
  for (const auto& one : kept) writer.raw(one);
  writer.time(issued);
  writer.raw(issuer.value);
  return writer.take();
}

void Revocation::sign(const Identity& by) {
  issued = cut(issued);
  issuer = by.id();
  signature = by.sign(kRevocationPurpose, signed_bytes());
}

Rights Standing::rights(WallTime now) const {
  Rights all = 0;
  if (revoked) return all;
  for (const Admission& admission : admissions)
    if (!admission.expired(now)) all |= admission.rights;
  return all;
}

bool Standing::is_member(WallTime now) const {
  return !revoked &&
         std::ranges::any_of(admissions, [&](const Admission& one) { return !one.expired(now); });
}

const NodeId* AdmissionSnapshot::owner_of(const CurveKey& key) const {
  return in(by_curve_, key);
}

const Standing* AdmissionSnapshot::find(const NodeId& node) const {
  const auto* standing = in(nodes_, node);
  return standing ? standing->get() : nullptr;
}

bool AdmissionSnapshot::is_member(const NodeId& node, WallTime now) const {
  const Standing* standing = find(node);
  return standing && standing->is_member(now);
}

bool AdmissionSnapshot::may(const NodeId& node, Rights wanted, WallTime now) const {
  const Standing* standing = find(node);
  return standing && standing->may(wanted, now);
}

Admissions::Admissions(ClusterIdentity cluster) : cluster_(cluster) {
  publish();
}

Result<void> Admissions::found(const Identity& founder, std::string name, WallTime now) {
  if (founder.id() != cluster_.founder) {
    return {ErrorCode::wrong_state, "this node did not found the cluster; join it with a token"};
  }
  if (snapshot()->find(founder.id()) != nullptr) return {};
  Admission record;
  record.node = founder.id();
  record.sign_key = founder.sign_key();
  record.name = std::move(name);
  record.rights = kAllRights;
  record.issued = now;
  auto added = admit(founder, std::move(record), founder.link_key());
  if (!added) return added.error();
  return {};
}

Result<Admission> Admissions::admit(const Identity& issuer, Admission record,
                                    const LinkKey& link_key) {
  record.cluster = cluster_.id;
  record.sign(issuer);
  const Judged judged = judge(record);
  if (judged.verdict == Verdict::unproven)
    return {ErrorCode::permission_denied,
            "this node may not admit others, or not with these rights (" + to_text(record.rights) +
                "); make the token on a node that may"};
  if (judged.is_refused()) return {ErrorCode::invalid_argument, judged.why};
  if (link_key.node != record.node || !link_key.is_genuine(record.sign_key))
    return {ErrorCode::invalid_argument, "the link key of " + record.node.short_text() +
                                             " is not signed by the node and by itself"};
  Credentials added;
  if (judged.verdict == Verdict::good) added.admissions.push_back(record);
  const auto known = link_keys_.find(record.node);
  if (known == link_keys_.end() || known->second.first.epoch < link_key.epoch)
    added.link_keys.push_back(link_key);
  if (auto done = add(added); !done) return done.error();
  return record;
}

// What is ordered or admitted here is on disk before it counts: where it cannot be, nothing has happened.
Result<void> Admissions::add(const Credentials& made) {
  if (record_ && news_.size() > kLimitOfNews) (void)store_all();  // or the news grow
  if (record_) {
    Credentials news = news_;
    news.add(made);
    if (auto stored = write_news(news); !stored) return stored;
  }
  for (const Revocation& one : made.revocations) insert(one);
  for (const Admission& one : made.admissions) insert(one);
  for (const LinkKey& one : made.link_keys) insert(one);
  publish();
  restored_.clear();
  dirty_ = false;
  return {};
}

Result<Admissions::PutOut> Admissions::revoke(const Identity& issuer, const RevokeOrder& wanted,
                                              WallTime now) {
  const auto list = snapshot();
  if (!list->find(wanted.node)) return {ErrorCode::not_found, "no such node was ever admitted"};
  if (wanted.node == issuer.id())
    return {ErrorCode::invalid_argument,
            "a node does not put itself out; `gpunode leave` ends it, another node revokes it"};
  Revocation order;
  order.cluster = cluster_.id;
  order.node = wanted.node;
  order.reason = wanted.reason;
  order.issued = now;
  if (!wanted.with_admitted)
    list->for_each([&](const NodeId&, const Standing& standing) {
      for (const Admission& one : standing.admissions)
        if (one.issuer == wanted.node) order.kept.push_back(one.digest());
    });
  std::ranges::sort(order.kept);
  if (order.kept.size() > Revocation::kMaxKept)
    return {ErrorCode::resource_exhausted,
            "it let in " + std::to_string(order.kept.size()) +
                " nodes, more than can be named: put them out with it (--with-admitted)"};
  order.sign(issuer);
  Admissions copy(cluster_);
  if (auto taken = copy.believe(all()); !taken) return taken.error();
  auto done = copy.revoke_here(issuer, std::move(order), wanted.restore_revoked);
  if (!done) return done.error();
  if (wanted.restore_revoked && done->back == 0)
    return {ErrorCode::invalid_argument,
            "it has put out nobody who could be back by that, so nothing was done; whom another "
            "node put out comes back with new keys only"};
  if (auto added = add({{}, {}, done->orders}); !added) return added.error();
  return done;
}

// Whom the node that is put out has put out itself, or one that it let in and that goes with it, stays
// out, unless that is to be undone: by this order's issuer, as their word is void now.
Result<Admissions::PutOut> Admissions::revoke_here(const Identity& issuer, Revocation order,
                                                   bool restore_revoked) {
  const auto before = revocations_;
  const std::string by =
      "anew, as ordered by " + order.node.short_text() + " or whom that had let in: ";
  const Judged judged = judge(order);
  if (judged.verdict == Verdict::unproven)
    return {ErrorCode::permission_denied,
            "this node may not put others out; order it on one that has the right to operate"};
  if (judged.is_refused()) return {ErrorCode::invalid_argument, judged.why};
  if (judged.verdict == Verdict::good) insert(order);
  settle();
  PutOut done;
  done.orders.push_back(order);
  for (const auto& [node, records] : before) {
    const auto own = admissions_.find(node);
    if (revocations_.contains(node) || own == admissions_.end() ||
        std::ranges::none_of(own->second, &Held::counts))
      continue;
    Revocation anew;
    anew.cluster = cluster_.id;
    anew.node = node;
    anew.reason = (by + records.front().reason).substr(0, Revocation::kMaxReasonBytes);
    anew.issued = order.issued;
    anew.kept = still_named(node, records);
    anew.sign(issuer);
    if (restore_revoked || node == issuer.id() || judge(anew).verdict != Verdict::good) {
      ++done.back;
      continue;
    }
    insert(anew);
    settle();
    done.orders.push_back(std::move(anew));
  }
  done.silenced = overrules(done.orders.front());
  return done;
}

// Good: signed by a member that may admit, whose own record is here; the founder signs its own.
Admissions::Judged Admissions::judge(const Admission& admission) const {
  const auto bad = [&](std::string_view reason) {
    return Judged{Verdict::bad,
                  "the admission of " + admission.node.short_text() + " " + std::string(reason)};
  };
  if (admission.cluster != cluster_.id) return bad("is of another cluster");
  if (node_id_of(admission.sign_key) != admission.node) return bad("names a key of another node");
  if (admission.name.size() > Admission::kMaxNameBytes) return bad("has too long a name");
  if ((admission.rights & ~kAllRights) != 0) return bad("grants rights that there are not");
  const auto own = admissions_.find(admission.node);
  if (own != admissions_.end()) {
    const auto& known = own->second;
    if (std::ranges::any_of(known, [&](const Held& one) {
          return stands_for(one.record, admission) &&
                 (one.record == admission || vouched_for(one.record));
        }))
      return {Verdict::known};
    // One that leads nowhere, as who signed it is out, gives way.
    const auto standing =
        std::ranges::count_if(known, [](const Held& one) { return one.depth != Held::kNowhere; });
    if (!believes_ && standing >= std::ptrdiff_t{kLimitPerNode} && !is_recovery(admission.issuer))
      return bad("is one too many; a node has at most 8");
  }
  if (is_recovery(admission.node)) return bad("lets in the recovery key, which is no node");
  if (!believes_ && count_ >= kLimit && !is_recovery(admission.issuer))
    return bad("does not fit; the cluster has 65536 records");
  const bool founds = admission.issuer == admission.node;
  if (founds && admission.node != cluster_.founder) return bad("is signed by the node itself");
  if (believes_) return {Verdict::good};
  const SignKey* key = founds ? &admission.sign_key : key_of(admission.issuer);
  if (!key) return {Verdict::unproven};
  if (!founds && !vouched_for(admission))
    return {Verdict::voided, bad("is by a node that was put out").why};
  // The right may arrive later; until then the signature is worth no time.
  if (!founds && depth_of(admission) == Held::kNowhere) return {Verdict::unproven};
  if (!verify(*key, kPurpose, admission.signed_bytes(), admission.signature))
    return {Verdict::forged, bad("has a wrong signature").why};
  return {Verdict::good};
}

Admissions::Judged Admissions::judge(const LinkKey& link_key) const {
  const auto owner = admissions_.find(link_key.node);
  if (owner == admissions_.end()) return {Verdict::unproven};
  const auto known = link_keys_.find(link_key.node);
  if (known != link_keys_.end() && known->second.first.epoch >= link_key.epoch)
    return {Verdict::known};
  if (!believes_ && !link_key.is_genuine(owner->second.front().record.sign_key))
    return {Verdict::forged, "the link key of " + link_key.node.short_text() +
                                 " is not signed by the node and by itself"};
  return {Verdict::good};
}

// Whoever may operate puts others out, unless one senior to it has put it out itself. Of a node that is
// not known here, too: it is to stay out when its admission comes from elsewhere.
Admissions::Judged Admissions::judge(const Revocation& revocation) const {
  const auto bad = [&](std::string_view reason) {
    return Judged{Verdict::bad,
                  "the revocation of " + revocation.node.short_text() + " " + std::string(reason)};
  };
  if (revocation.cluster != cluster_.id) return bad("is of another cluster");
  if (revocation.reason.size() > Revocation::kMaxReasonBytes) return bad("has too long a reason");
  if (revocation.kept.size() > Revocation::kMaxKept) return bad("names too many records");
  if (!std::ranges::is_sorted(revocation.kept)) return bad("names records out of their order");
  if (revocation.node == revocation.issuer) return bad("is by the node itself");
  if (is_recovery(revocation.node)) return bad("is of the recovery key");
  const bool recovers = is_recovery(revocation.issuer);
  const auto own = revocations_.find(revocation.node);
  if (own != revocations_.end()) {
    bool replaces = false;
    for (const Revocation& one : own->second) {
      if (one.issuer != revocation.issuer) continue;
      if (!is_later(revocation, one)) return {Verdict::known};
      replaces = true;
    }
    if (!believes_ && !recovers && !replaces && own->second.size() >= kLimitPerNode &&
        !most_junior(own->second, revocation))
      return bad("is one too many; a node has at most 8");
  }
  if (believes_) return {Verdict::good};
  const auto by = revoked_by_.find(revocation.issuer);
  // To put out one that orders itself makes room.
  const bool fits = revoked_weight_ < kLimit || revoked_by_.contains(revocation.node);
  if (!recovers &&
      (!fits || (by != revoked_by_.end() && by->second + revocation.weight() > kLimitPerIssuer)))
    return bad("does not fit; the orders of a node weigh at most 4096 and all of them 65536");
  const SignKey* key = key_of(revocation.issuer);
  if (!key) return {Verdict::unproven};
  if (!recovers) {
    const Held* seat = seat_of(revocation.issuer, kRightOperate, revocation.issued);
    if (!seat) return {Verdict::unproven};
    if (is_overruled(revocation, *seat))
      return {Verdict::voided, bad("is by a node that one senior to it put out").why};
  }
  if (!verify(*key, kRevocationPurpose, revocation.signed_bytes(), revocation.signature))
    return {Verdict::forged, bad("has a wrong signature").why};
  return {Verdict::good};
}

// Whose word this list knows how to check; null: not known yet.
const SignKey* Admissions::key_of(const NodeId& issuer) const {
  if (is_recovery(issuer)) return &cluster_.recovery;
  const auto found = admissions_.find(issuer);
  return found == admissions_.end() ? nullptr : &found->second.front().record.sign_key;
}

void Admissions::insert(const Admission& admission) {
  auto& records = admissions_[admission.node];
  const bool full = records.size() >= kLimitPerNode;
  const auto covered = std::erase_if(records, [&](const Held& one) {
    if (!stands_for(admission, one.record) && (!full || believes_ || one.depth != Held::kNowhere))
      return false;
    --admitted_by_[one.record.issuer];
    return true;
  });
  Held added{admission};
  added.depth = depth_of(admission);
  added.counts = leads_back(admission);
  arrived_.insert(admission.node);
  const bool changes_others =
      admitted_by_.contains(admission.node) || revoked_by_.contains(admission.node);
  records.push_back(std::move(added));
  count_ += 1 - covered;
  ++admitted_by_[admission.issuer];
  changed_.insert(admission.node);
  unsettled_ |= changes_others;
  note({admission.node, admission.issued});
  news_.admissions.push_back(admission);
  dirty_ = true;
}

void Admissions::insert(const LinkKey& link_key) {
  link_keys_[link_key.node] = {link_key, *link_key.curve_key()};  // genuine: it has one
  changed_.insert(link_key.node);
  news_.link_keys.push_back(link_key);
  dirty_ = true;
}

void Admissions::insert(const Revocation& revocation) {
  auto& records = revocations_[revocation.node];
  std::erase_if(records, [&](const Revocation& one) {
    if (one.issuer != revocation.issuer) return false;
    take_weight(one);
    return true;
  });
  if (!believes_ && records.size() >= kLimitPerNode)
    if (const Revocation* junior = most_junior(records, revocation)) {
      take_weight(*junior);
      records.erase(records.begin() + (junior - records.data()));
    }
  records.push_back(revocation);
  revoked_by_[revocation.issuer] += revocation.weight();
  revoked_weight_ += revocation.weight();
  ++revoked_count_;
  changed_.insert(revocation.node);
  news_.revocations.push_back(revocation);
  dirty_ = true;
  // Of one that has signed nothing nobody else's standing hangs on it.
  const bool signs =
      admitted_by_.contains(revocation.node) || revoked_by_.contains(revocation.node);
  unsettled_ |= signs;
}

void Admissions::take_weight(const Revocation& revocation) {
  const auto by = revoked_by_.find(revocation.issuer);
  if ((by->second -= revocation.weight()) == 0) revoked_by_.erase(by);
  revoked_weight_ -= revocation.weight();
  --revoked_count_;
}

}  // namespace gpunode::security
