#include "runtime/security/admission.hpp"

#include "runtime/security/detail/layout.hpp"
#include "runtime/security/detail/private_record.hpp"

#include <algorithm>
#include <tuple>

namespace gpunode::security {

namespace {

constexpr std::string_view kPurpose = "gpunode admission 2";
constexpr std::string_view kRevocationPurpose = "gpunode revocation 1";
constexpr storage::RecordFormat kFormat{{'G', 'P', 'A', 'D'}, 2};
constexpr std::size_t kMaxWaiting = 1024;  // of each kind

WallTime cut(WallTime time) {
  return std::chrono::time_point_cast<std::chrono::milliseconds>(time);
}

bool newer(const Admission& left, const Admission& right) {
  return std::tie(left.issued, left.signature) > std::tie(right.issued, right.signature);
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

Bytes Revocation::signed_bytes() const {
  detail::LayoutWriter writer;
  writer.raw(cluster.value);
  writer.raw(node.value);
  writer.text(reason);
  writer.u32(static_cast<std::uint32_t>(kept.size()));
  for (const NodeId& one : kept) writer.raw(one.value);
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
  const auto found = by_curve_.find(key);
  return found == by_curve_.end() ? nullptr : &found->second;
}

const Standing* AdmissionSnapshot::find(const NodeId& node) const {
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? nullptr : &found->second;
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

Result<std::unique_ptr<Admissions>> Admissions::open(storage::FileSystem& files,
                                                     const storage::Path& state_directory,
                                                     const ClusterIdentity& cluster) {
  storage::Path path = state_directory / "admissions";
  auto list = std::make_unique<Admissions>(cluster);
  auto stored = detail::load_private(files, path, kFormat);
  if (!stored) return stored.error().within("the list of admitted nodes");
  if (stored->has_value()) {
    auto credentials = decode_credentials(**stored);
    if (!credentials) return credentials.error().within(path.string());
    auto merged = list->merge(*credentials);
    if (!merged) return merged.error();
    if (!merged->refused.empty() || merged->waiting > 0) {
      std::string why = merged->refused.empty() ? "an issuer is missing" : merged->refused.front();
      return {ErrorCode::corrupted, path.string() + " holds a record that does not verify (" + why +
                                        "); move the file away and join anew"};
    }
  }
  list->record_.emplace(files, path, kFormat);
  list->dirty_ = false;
  return list;
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
  if (judged.verdict == Verdict::bad) return {ErrorCode::invalid_argument, judged.why};
  if (link_key.node != record.node || !link_key.is_genuine(record.sign_key))
    return {ErrorCode::invalid_argument, "the link key of " + record.node.short_text() +
                                             " is not signed by the node and by itself"};
  if (judged.verdict == Verdict::good) insert(record);
  publish();
  if (judge(link_key).verdict == Verdict::good) insert(link_key);
  publish();
  if (auto stored = store(); !stored) return stored.error();
  return record;
}

Result<Revocation> Admissions::revoke(const Identity& issuer, const NodeId& node,
                                      std::string reason, bool with_admitted, WallTime now) {
  const auto list = snapshot();
  if (!list->find(node)) return {ErrorCode::not_found, "no such node was ever admitted"};
  if (node == issuer.id())
    return {ErrorCode::invalid_argument,
            "a node does not put itself out; `gpunode leave` ends it, another node revokes it"};
  Revocation revocation;
  revocation.cluster = cluster_.id;
  revocation.node = node;
  revocation.reason = std::move(reason);
  revocation.issued = now;
  if (!with_admitted)
    for (const auto& [id, standing] : list->nodes())
      if (std::ranges::any_of(standing.admissions,
                              [&](const Admission& one) { return one.issuer == node; }))
        revocation.kept.push_back(id);
  std::ranges::sort(revocation.kept);
  if (revocation.kept.size() > Revocation::kMaxKept)
    return {ErrorCode::resource_exhausted,
            "it let in " + std::to_string(revocation.kept.size()) +
                " nodes, more than can be named: put them out with it (--with-admitted)"};
  revocation.sign(issuer);
  const Judged judged = judge(revocation);
  if (judged.verdict == Verdict::unproven)
    return {ErrorCode::permission_denied,
            "this node may not put others out; order it on one that "
            "has the right to operate"};
  if (judged.verdict == Verdict::bad) return {ErrorCode::invalid_argument, judged.why};
  if (judged.verdict == Verdict::good) insert(revocation);
  publish();
  if (auto stored = store(); !stored) return stored.error();
  return revocation;
}

// One pass over what is not judged yet; whether anything was added.
template <class Record>
bool Admissions::merge_some(std::vector<Record>& pending, std::vector<Record>& added,
                            Merge& merge) {
  bool progress = false;
  std::vector<Record> rest;
  for (Record& record : pending) {
    Judged judged = judge(record);
    switch (judged.verdict) {
      case Verdict::good:
        insert(record);
        added.push_back(std::move(record));
        progress = true;
        break;
      case Verdict::known:
        ++merge.known;
        break;
      case Verdict::unproven:
        rest.push_back(std::move(record));
        break;
      case Verdict::bad:
        merge.refused.push_back(std::move(judged.why));
        break;
    }
  }
  pending = std::move(rest);
  if (progress) publish();
  return progress;
}

Result<Admissions::Merge> Admissions::merge(const Credentials& credentials) {
  const auto append = [](auto& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  const auto bound = [](auto& waiting) {
    if (waiting.size() > kMaxWaiting) waiting.resize(kMaxWaiting);
  };
  Merge merge;
  append(waiting_.admissions, credentials.admissions);
  append(waiting_.link_keys, credentials.link_keys);
  append(waiting_.revocations, credentials.revocations);
  for (bool progress = true; progress;) {
    // Who is put out is so before it can let anybody in.
    progress = merge_some(waiting_.revocations, merge.added.revocations, merge);
    progress |= merge_some(waiting_.admissions, merge.added.admissions, merge);
    progress |= merge_some(waiting_.link_keys, merge.added.link_keys, merge);
  }
  merge.waiting = waiting_.size();
  bound(waiting_.admissions);
  bound(waiting_.link_keys);
  bound(waiting_.revocations);
  if (auto stored = store(); !stored) return stored.error();
  return merge;
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
    if (std::ranges::find(known, admission) != known.end()) return {Verdict::known};
    if (known.size() >= kLimitPerNode) return bad("is one too many; a node has at most 8");
  }
  if (count_ >= kLimit) return bad("does not fit; the cluster has 65536 records");
  const bool founds = admission.issuer == admission.node;
  if (founds && admission.node != cluster_.founder) return bad("is signed by the node itself");
  const auto issuer = admissions_.find(admission.issuer);
  if (!founds && issuer == admissions_.end()) return {Verdict::unproven};
  const SignKey& signed_by = founds ? admission.sign_key : issuer->second.front().sign_key;
  if (!verify(signed_by, kPurpose, admission.signed_bytes(), admission.signature))
    return bad("has a wrong signature");
  if (founds) return {Verdict::good};
  if (!vouched_for(admission.issuer, admission.node)) return bad("is by a node that was put out");
  const bool may = held(admission.issuer, kRightAdmit | admission.rights, admission.issued);
  return {may ? Verdict::good : Verdict::unproven};  // the right may arrive later
}

Admissions::Judged Admissions::judge(const LinkKey& link_key) const {
  const auto owner = admissions_.find(link_key.node);
  if (owner == admissions_.end()) return {Verdict::unproven};
  const auto known = link_keys_.find(link_key.node);
  if (known != link_keys_.end() && known->second.first.epoch >= link_key.epoch)
    return {Verdict::known};
  if (!link_key.is_genuine(owner->second.front().sign_key))
    return {Verdict::bad, "the link key of " + link_key.node.short_text() +
                              " is not signed by the node and by itself"};
  return {Verdict::good};
}

// Whoever may operate puts others out, also one that is put out itself: of two at once both stand,
// and whoever is out has nobody to tell a later one to.
Admissions::Judged Admissions::judge(const Revocation& revocation) const {
  const auto bad = [&](std::string_view reason) {
    return Judged{Verdict::bad,
                  "the revocation of " + revocation.node.short_text() + " " + std::string(reason)};
  };
  if (revocation.cluster != cluster_.id) return bad("is of another cluster");
  if (revocation.reason.size() > Revocation::kMaxReasonBytes) return bad("has too long a reason");
  if (revocation.kept.size() > Revocation::kMaxKept) return bad("names too many nodes");
  if (revocation.node == revocation.issuer) return bad("is by the node itself");
  const auto own = revocations_.find(revocation.node);
  if (own != revocations_.end()) {
    if (std::ranges::find(own->second, revocation) != own->second.end()) return {Verdict::known};
    if (own->second.size() >= kLimitPerNode) return bad("is one too many; a node has at most 8");
  }
  const auto issuer = admissions_.find(revocation.issuer);
  if (issuer == admissions_.end() || !admissions_.contains(revocation.node))
    return {Verdict::unproven};
  if (!verify(issuer->second.front().sign_key, kRevocationPurpose, revocation.signed_bytes(),
              revocation.signature))
    return bad("has a wrong signature");
  return {held(revocation.issuer, kRightOperate, revocation.issued) ? Verdict::good
                                                                    : Verdict::unproven};
}

void Admissions::insert(const Admission& admission) {
  admissions_[admission.node].push_back(admission);
  ++count_;
  dirty_ = true;
}

void Admissions::insert(const LinkKey& link_key) {
  link_keys_[link_key.node] = {link_key, *link_key.curve_key()};  // genuine: it has one
  dirty_ = true;
}

void Admissions::insert(const Revocation& revocation) {
  revocations_[revocation.node].push_back(revocation);
  dirty_ = true;
}

// Whether the word of `issuer` for `node` counts: it is not put out, or was so with the remark that
// this node stays.
bool Admissions::vouched_for(const NodeId& issuer, const NodeId& node) const {
  const auto revoked = revocations_.find(issuer);
  return revoked == revocations_.end() ||
         std::ranges::all_of(revoked->second, [&](const Revocation& one) {
           return std::ranges::find(one.kept, node) != one.kept.end();
         });
}

// Which admissions count: from the founder on, along those that may admit. `heeded`: what who is put
// out has said counts only for those that were named to stay.
Admissions::ByNode Admissions::that_count(bool heeded) const {
  std::unordered_map<NodeId, std::vector<const Admission*>> by_issuer;
  for (const auto& [node, records] : admissions_)
    for (const Admission& record : records) by_issuer[record.issuer].push_back(&record);
  ByNode counted;
  std::set<NodeId> open;
  for (const Admission* record : by_issuer[cluster_.founder])
    if (record->node == cluster_.founder) counted[record->node].push_back(*record);
  if (!counted.empty()) open.insert(cluster_.founder);
  while (!open.empty()) {
    const NodeId issuer = open.extract(open.begin()).value();
    const std::vector<Admission> own = counted.at(issuer);
    for (const Admission* record : by_issuer[issuer]) {
      if (heeded && !vouched_for(issuer, record->node)) continue;
      const Rights wanted = kRightAdmit | record->rights;
      const bool may = std::ranges::any_of(own, [&](const Admission& one) {
        return (one.rights & wanted) == wanted && !one.expired(record->issued);
      });
      auto& granted = counted[record->node];
      if (!may || std::ranges::find(granted, *record) != granted.end()) continue;
      granted.push_back(*record);
      open.insert(record->node);
    }
  }
  std::erase_if(counted, [](const auto& each) { return each.second.empty(); });
  return counted;
}

void Admissions::publish() {
  ever_ = that_count(false);
  AdmissionSnapshot next;
  for (auto& [node, admissions] : that_count(true)) {
    Standing& standing = next.nodes_[node];
    standing.admissions = std::move(admissions);
    std::ranges::sort(standing.admissions, newer);
    standing.revoked = revocations_.contains(node);
    const auto key = link_keys_.find(node);
    if (key == link_keys_.end()) continue;
    std::tie(standing.link_key, standing.curve_key) = key->second;
    next.by_curve_[*standing.curve_key] = node;
  }
  snapshot_.write(std::move(next));
}

// Whether one of its admissions held these rights at that time, put out since or not: what was heard
// first must not decide.
bool Admissions::held(const NodeId& node, Rights rights, WallTime when) const {
  const auto ever = ever_.find(node);
  return ever != ever_.end() && std::ranges::any_of(ever->second, [&](const Admission& own) {
           return (own.rights & rights) == rights && !own.expired(when);
         });
}

Credentials Admissions::all() const {
  Credentials out;
  for (const auto& [node, records] : admissions_)
    out.admissions.insert(out.admissions.end(), records.begin(), records.end());
  for (const auto& [node, key] : link_keys_) out.link_keys.push_back(key.first);
  for (const auto& [node, records] : revocations_)
    out.revocations.insert(out.revocations.end(), records.begin(), records.end());
  return out;
}

// What could not be stored stays in the list and is stored with the next change.
Result<void> Admissions::store() {
  if (!record_ || !dirty_) return {};
  auto stored = record_->store(encode_credentials(all()));
  if (!stored) return stored.error().within("the list of admitted nodes");
  dirty_ = false;
  return {};
}

}  // namespace gpunode::security
