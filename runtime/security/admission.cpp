#include "runtime/security/admission.hpp"

#include "runtime/security/detail/layout.hpp"
#include "runtime/security/detail/private_record.hpp"

#include <algorithm>
#include <tuple>

namespace gpunode::security {

namespace {

constexpr std::string_view kPurpose = "gpunode admission 1";
constexpr storage::RecordFormat kFormat{{'G', 'P', 'A', 'D'}, 1};
constexpr std::size_t kMaxWaiting = 1024;

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
  writer.raw(curve_key.value);
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

const Admission* AdmissionSnapshot::find(const CurveKey& key) const {
  auto found = by_curve_.find(key);
  return found == by_curve_.end() ? nullptr : &found->second;
}

const Admission* AdmissionSnapshot::find(const NodeId& node) const {
  auto found = by_node_.find(node);
  return found == by_node_.end() ? nullptr : &found->second;
}

bool AdmissionSnapshot::allows(const CurveKey& key, WallTime now) const {
  const Admission* admission = find(key);
  return admission != nullptr && !admission->expired(now) && admission->may(kRightMember);
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
    auto admissions = decode_admissions(**stored);
    if (!admissions) return admissions.error().within(path.string());
    auto merged = list->merge(*admissions);
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
  record.curve_key = founder.curve_key();
  record.name = std::move(name);
  record.issued = now;
  auto added = admit(founder, std::move(record));
  if (!added) return added.error();
  return {};
}

Result<Admission> Admissions::admit(const Identity& issuer, Admission record) {
  record.cluster = cluster_.id;
  record.sign(issuer);
  std::string why;
  switch (judge(record, why)) {
    case Verdict::known:
      return record;
    case Verdict::issuer_unknown:
      return {ErrorCode::permission_denied,
              "this node may not admit others; make the token on a "
              "node that may"};
    case Verdict::bad:
      return {ErrorCode::invalid_argument, why};
    case Verdict::good:
      break;
  }
  insert(record);
  publish();
  if (auto stored = store(); !stored) return stored.error();
  return record;
}

Result<Admissions::Merge> Admissions::merge(const std::vector<Admission>& admissions) {
  Merge merge;
  std::vector<Admission> pending = std::move(waiting_);
  waiting_.clear();
  pending.insert(pending.end(), admissions.begin(), admissions.end());
  for (bool progress = true; progress;) {
    progress = false;
    std::vector<Admission> rest;
    for (Admission& admission : pending) {
      std::string why;
      switch (judge(admission, why)) {
        case Verdict::good:
          insert(admission);
          merge.added.push_back(std::move(admission));
          progress = true;
          break;
        case Verdict::known:
          ++merge.known;
          break;
        case Verdict::issuer_unknown:
          rest.push_back(std::move(admission));
          break;
        case Verdict::bad:
          merge.refused.push_back(std::move(why));
          break;
      }
    }
    pending = std::move(rest);
  }
  merge.waiting = pending.size();
  if (pending.size() > kMaxWaiting) pending.resize(kMaxWaiting);
  waiting_ = std::move(pending);
  if (!merge.added.empty()) publish();
  if (auto stored = store(); !stored) return stored.error();
  return merge;
}

// Good: signed by a member that may admit, whose own record is here; the founder signs its own.
Admissions::Verdict Admissions::judge(const Admission& admission, std::string& why) const {
  auto bad = [&](std::string_view reason) {
    why = "the admission of " + admission.node.short_text() + " " + std::string(reason);
    return Verdict::bad;
  };
  if (admission.cluster != cluster_.id) return bad("is of another cluster");
  if (node_id_of(admission.sign_key) != admission.node) return bad("names a key of another node");
  if (admission.name.size() > Admission::kMaxNameBytes) return bad("has too long a name");
  auto own = records_.find(admission.node);
  if (own != records_.end()) {
    const auto& known = own->second;
    if (std::ranges::find(known, admission) != known.end()) return Verdict::known;
    if (known.size() >= kLimitPerNode) return bad("is one too many; a node has at most 8");
  }
  if (count_ >= kLimit) return bad("does not fit; the cluster has 65536 records");
  auto owner = curve_owner_.find(admission.curve_key);
  if (owner != curve_owner_.end() && owner->second != admission.node) {
    return bad("claims the connection key of " + owner->second.short_text());
  }
  const bool founds = admission.issuer == admission.node;
  if (founds && admission.node != cluster_.founder) return bad("is signed by the node itself");
  auto issuer = records_.find(admission.issuer);
  if (!founds && issuer == records_.end()) return Verdict::issuer_unknown;
  const SignKey& signed_by = founds ? admission.sign_key : issuer->second.front().sign_key;
  if (!verify(signed_by, kPurpose, admission.signed_bytes(), admission.signature)) {
    return bad("has a wrong signature");
  }
  const std::uint32_t rights = kRightAdmit | admission.rights;
  bool may = founds || holds(admission.issuer, rights, admission.issued);
  return may ? Verdict::good : Verdict::issuer_unknown;  // the right may arrive later
}

void Admissions::insert(const Admission& admission) {
  records_[admission.node].push_back(admission);
  curve_owner_[admission.curve_key] = admission.node;
  ++count_;
  dirty_ = true;
}

void Admissions::publish() {
  AdmissionSnapshot snapshot;
  for (const auto& [node, records] : records_) {
    for (const Admission& record : records) {
      auto [by_node, first] = snapshot.by_node_.try_emplace(node, record);
      if (!first && newer(record, by_node->second)) by_node->second = record;
      auto [by_curve, fresh] = snapshot.by_curve_.try_emplace(record.curve_key, record);
      if (!fresh && newer(record, by_curve->second)) by_curve->second = record;
    }
  }
  snapshot_.write(std::move(snapshot));
}

bool Admissions::holds(const NodeId& node, std::uint32_t rights, WallTime when) const {
  auto found = records_.find(node);
  return found != records_.end() && std::ranges::any_of(found->second, [&](const Admission& own) {
           return own.may(rights) && !own.expired(when);
         });
}

std::vector<Admission> Admissions::all() const {
  std::vector<Admission> out;
  out.reserve(count_);
  for (const auto& [node, records] : records_) {
    out.insert(out.end(), records.begin(), records.end());
  }
  return out;
}

// What could not be stored stays in the list and is stored with the next change.
Result<void> Admissions::store() {
  if (!record_ || !dirty_) return {};
  auto stored = record_->store(encode_admissions(all()));
  if (!stored) return stored.error().within("the list of admitted nodes");
  dirty_ = false;
  return {};
}

}  // namespace gpunode::security
