// What of the list of nodes is told, kept, stored and forgotten; who counts is judged in
// admission.cpp.
//
// Forgotten is who was not seen for 30 days, unless the chain of one that is kept leads over it. That
// lets nobody back in by the back door: the node itself has no session any more, over which it could
// tell of itself, and whoever still holds its admission may bring it back only as long as nobody has
// put it out. Hence a revocation is never forgotten (all of them together weigh at most 65536, some
// 25 MB), nor is what proves it. Each node forgets by what it saw itself and was told of by others, and
// counts no time in which it did not run: a cluster that was off for a year is the same after it.
#include "runtime/security/admission.hpp"

#include "runtime/security/detail/layout.hpp"
#include "runtime/security/detail/private_record.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>

namespace gpunode::security {

namespace {

constexpr storage::RecordFormat kFormat{{'G', 'P', 'A', 'D'}, 3};
constexpr std::size_t kRoomy = Admissions::kLimit * 3 / 4;
constexpr std::chrono::hours kOff{2};      // a longer gap is one in which it did not run
constexpr std::chrono::hours kLately{24};  // who was seen within is never forgotten

bool newer(const Admission& left, const Admission& right) {
  return std::tie(left.issued, left.signature) > std::tie(right.issued, right.signature);
}

std::uint64_t number_at(const Signature& signature, std::size_t at) {
  std::uint64_t number;
  std::memcpy(&number, signature.data() + at, sizeof number);
  return number;
}

std::size_t bucket_of(const NodeId& node) {
  return std::to_integer<std::size_t>(node.value[0]);
}

template <class Value>
void add_all(std::vector<Value>& to, const std::vector<Value>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

void Credentials::add(const Credentials& more) {
  add_all(admissions, more.admissions);
  add_all(link_keys, more.link_keys);
  add_all(revocations, more.revocations);
  add_all(sightings, more.sightings);
}

Bytes encode_summary(const CredentialsSummary& summary) {
  detail::LayoutWriter writer;
  for (const std::uint64_t number : summary) writer.u64(number);
  return writer.take();
}

Result<CredentialsSummary> decode_summary(ByteView bytes) {
  detail::LayoutReader reader(bytes);
  CredentialsSummary summary;
  for (std::uint64_t& number : summary) number = reader.u64();
  if (!reader.ok() || !reader.at_end())
    return {ErrorCode::corrupted, "a summary of credentials has 256 numbers"};
  return summary;
}

Result<std::unique_ptr<Admissions>> Admissions::open(storage::FileSystem& files,
                                                     const storage::Path& state_directory,
                                                     const ClusterIdentity& cluster) {
  auto list = std::make_unique<Admissions>(cluster);
  const storage::Path paths[] = {state_directory / "admissions",
                                 state_directory / "admissions.news"};
  Credentials kept, news;
  for (const storage::Path& path : paths) {
    auto stored = detail::load_private(files, path, kFormat);
    if (!stored) return stored.error().within("the list of admitted nodes");
    if (!stored->has_value()) continue;
    auto credentials = decode_credentials(**stored);
    if (!credentials) return credentials.error().within(path.string());
    kept.add(*credentials);
    if (&path == &paths[1]) news = *std::move(credentials);
  }
  auto merged = list->believe(kept);
  if (!merged) return merged.error();
  if (!merged->refused.empty() || merged->waiting > 0) {
    std::string why = merged->refused.empty() ? "an admission is missing" : merged->refused.front();
    return {ErrorCode::corrupted, paths[0].string() + " holds a record that does not fit (" + why +
                                      "); move the file away and join anew"};
  }
  list->news_ = std::move(news);  // the next ones are written with them
  list->record_.emplace(files, paths[0], kFormat);
  list->news_record_.emplace(files, paths[1], kFormat);
  list->dirty_ = false;
  return list;
}

// All of it, in any order, as what stands there was checked when it came.
Result<Admissions::Merge> Admissions::believe(const Credentials& stored) {
  believes_ = true;
  auto merged = merge(stored);
  believes_ = false;
  settle_all();
  restored_.clear();  // it was told when they were heard
  publish();
  return merged;
}

void Admissions::publish() {
  settle();
  if (changed_.empty()) return;
  AdmissionSnapshot next = *snapshot();
  std::map<std::size_t, std::unordered_map<NodeId, std::shared_ptr<const Standing>>> nodes;
  std::map<std::size_t, std::unordered_map<CurveKey, NodeId>> keys;
  const auto part = [](auto& copies, const auto& parts, const auto& key) -> auto& {
    const auto index = std::to_integer<std::size_t>(key.value[0]);
    const auto [at, fresh] = copies.try_emplace(index);
    if (fresh && parts[index]) at->second = *parts[index];
    return at->second;
  };
  for (const NodeId& node : changed_) {
    auto& standings = part(nodes, next.nodes_, node);
    if (const auto before = standings.find(node); before != standings.end()) {
      if (const auto& key = before->second->curve_key) part(keys, next.by_curve_, *key).erase(*key);
      standings.erase(before);
      --next.size_;
    }
    if (auto standing = standing_of(node)) {
      if (const auto& key = standing->curve_key) part(keys, next.by_curve_, *key)[*key] = node;
      standings[node] = std::move(standing);
      ++next.size_;
    }
  }
  const auto put = [](auto& parts, auto& copies) {
    for (auto& [index, copy] : copies)
      parts[index] = std::make_shared<const std::decay_t<decltype(copy)>>(std::move(copy));
  };
  put(next.nodes_, nodes);
  put(next.by_curve_, keys);
  changed_.clear();
  snapshot_.write(std::move(next));
}

// Null for one without an admission that counts.
std::shared_ptr<const Standing> Admissions::standing_of(const NodeId& node) const {
  const auto records = admissions_.find(node);
  if (records == admissions_.end()) return nullptr;
  auto standing = std::make_shared<Standing>();
  for (const Held& one : records->second)
    if (one.counts) standing->admissions.push_back(one.record);
  if (standing->admissions.empty()) return nullptr;
  std::ranges::sort(standing->admissions, newer);
  standing->revoked = revocations_.contains(node);
  if (const auto key = link_keys_.find(node); key != link_keys_.end())
    std::tie(standing->link_key, standing->curve_key) = key->second;
  return standing;
}

// All that is known of one node.
void Admissions::append(Credentials& out, const NodeId& node) const {
  if (const auto records = admissions_.find(node); records != admissions_.end())
    for (const Held& one : records->second) out.admissions.push_back(one.record);
  if (const auto key = link_keys_.find(node); key != link_keys_.end())
    out.link_keys.push_back(key->second.first);
  if (const auto records = revocations_.find(node); records != revocations_.end())
    add_all(out.revocations, records->second);
  if (const auto seen = seen_.find(node); seen != seen_.end())
    out.sightings.push_back({node, seen->second});
}

Credentials Admissions::all() const {
  Credentials out;
  for (const auto& [node, records] : admissions_) append(out, node);
  for (const auto& [node, records] : revocations_)
    if (!admissions_.contains(node)) append(out, node);
  return out;
}

// Those that the standing of these rests on, they themselves among them: who let them in, who put
// out any of all these.
std::set<NodeId> Admissions::needed_by(std::set<NodeId> open) const {
  std::set<NodeId> needed;
  while (!open.empty()) {
    const NodeId node = open.extract(open.begin()).value();
    if (!needed.insert(node).second) continue;
    if (const auto records = admissions_.find(node); records != admissions_.end())
      for (const Held& one : records->second) open.insert(one.record.issuer);
    if (const auto records = revocations_.find(node); records != revocations_.end())
      for (const Revocation& one : records->second) open.insert(one.issuer);
  }
  return needed;
}

Credentials Admissions::chain_of(std::span<const NodeId> nodes) const {
  Credentials out;
  for (const NodeId& node : needed_by({nodes.begin(), nodes.end()})) append(out, node);
  return out;
}

CredentialsSummary Admissions::summary() const {
  CredentialsSummary summary{};
  for (const auto& [node, records] : admissions_)
    for (const Held& one : records) summary[bucket_of(node)] ^= number_at(one.record.signature, 0);
  for (const auto& [node, key] : link_keys_)
    summary[bucket_of(node)] ^= number_at(key.first.by_node, 8);
  for (const auto& [node, records] : revocations_)
    for (const Revocation& one : records) summary[bucket_of(node)] ^= number_at(one.signature, 16);
  return summary;
}

Credentials Admissions::bucket(std::size_t index) const {
  Credentials out;
  NodeId first{};
  first.value[0] = static_cast<std::byte>(index);
  const auto within = [index](const auto& each) { return bucket_of(each.first) == index; };
  for (auto at = admissions_.lower_bound(first); at != admissions_.end() && within(*at); ++at)
    append(out, at->first);
  for (auto at = revocations_.lower_bound(first); at != revocations_.end() && within(*at); ++at)
    if (!admissions_.contains(at->first)) append(out, at->first);
  return out;
}

void Admissions::note(const Sighting& sighting) {
  if (!admissions_.contains(sighting.node)) return;
  WallTime& at = seen_[sighting.node];
  at = std::max(at, sighting.at);
}

void Admissions::saw(std::span<const NodeId> nodes, WallTime now) {
  for (const NodeId& node : nodes) note({node, now});
}

std::optional<WallTime> Admissions::last_seen(const NodeId& node) const {
  const auto found = seen_.find(node);
  return found == seen_.end() ? std::nullopt : std::optional(found->second);
}

Result<std::size_t> Admissions::forget_the_unseen(const NodeId& self, WallTime now) {
  // This node writes down once an hour that it saw itself.
  const WallTime ran = last_seen(self).value_or(now);
  if (!awake_ && now - ran > kOff)
    for (auto& [node, at] : seen_) at += now - ran;
  awake_ = true;
  std::vector<std::pair<WallTime, NodeId>> by_age;
  for (auto& [node, at] : seen_) {
    at = std::min(at, now);  // of others' clocks, or lies
    by_age.emplace_back(at, node);
  }
  std::ranges::sort(by_age);
  std::set<NodeId> kept{self, cluster_.founder};
  std::size_t left = by_age.size();
  for (const auto& [at, node] : by_age) {
    const bool in_the_way = left > kRoomy && now - at > kLately;
    if (node != self && (now - at > kForgotten || in_the_way))
      --left;
    else
      kept.insert(node);
  }
  for (const auto& [node, records] : revocations_)
    for (const Revocation& one : records) kept.insert(one.issuer);
  const std::set<NodeId> needed = needed_by(std::move(kept));
  std::size_t forgotten = 0;
  for (auto at = admissions_.begin(); at != admissions_.end();) {
    const NodeId node = at->first;
    if (needed.contains(node)) {
      ++at;
      continue;
    }
    for (const Held& one : at->second)
      if (const auto by = admitted_by_.find(one.record.issuer); --by->second == 0)
        admitted_by_.erase(by);
    count_ -= at->second.size();
    at = admissions_.erase(at);
    link_keys_.erase(node);
    seen_.erase(node);
    changed_.insert(node);
    ++forgotten;
  }
  publish();
  if (auto stored = store_all(); !stored) return stored.error();
  return forgotten;
}

// What could not be stored stays in the list and is stored with the next change.
Result<void> Admissions::store() {
  if (!record_ || !dirty_) return {};
  if (news_.size() > kLimitOfNews) return store_all();
  auto stored = write_news(news_);
  if (stored) dirty_ = false;
  return stored;
}

Result<void> Admissions::write_news(const Credentials& news) {
  auto stored = news_record_->store(encode_credentials(news));
  return stored ? stored : Result<void>(stored.error().within("the list of admitted nodes"));
}

// The news last: until they are gone they say again what is in the list.
Result<void> Admissions::store_all() {
  if (!record_) return {};
  auto stored = record_->store(encode_credentials(all()));
  if (!stored) return stored.error().within("the list of admitted nodes");
  if (auto emptied = write_news({}); !emptied) return emptied;
  news_ = {};
  dirty_ = false;
  return {};
}

}  // namespace gpunode::security
