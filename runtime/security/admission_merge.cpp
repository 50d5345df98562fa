// What others tell of who may be here: taken in if it is proven; kept for a while, within bounds, if
// what would prove it has not come yet.
#include <algorithm>
#include <utility>

#include "runtime/security/admission.hpp"

namespace gpunode::security {

namespace {

constexpr std::size_t kMaxWaiting = 2048;  // weight of what waits of each teller
constexpr std::size_t kMaxTellers = 64;
constexpr int kMostPasses = 64;  // over what one tells at once; the rest waits for whom it hangs on

template <class Record>
std::size_t weight_of(const Record& record) {
  if constexpr (requires { record.weight(); })
    return record.weight();
  else
    return 1;
}

template <class Record>
std::size_t weight_of(const std::vector<Record>& records) {
  std::size_t sum = 0;
  for (const Record& one : records) sum += weight_of(one);
  return sum;
}

std::size_t weight_of(const Credentials& records) {
  return weight_of(records.admissions) + weight_of(records.link_keys) +
         weight_of(records.revocations);
}

const NodeId& awaited_by(const Admission& admission) {
  return admission.issuer;
}
const NodeId& awaited_by(const Revocation& revocation) {
  return revocation.issuer;
}
const NodeId& awaited_by(const LinkKey& link_key) {
  return link_key.node;
}

}  // namespace

// One pass over what is not judged yet; whether anything was added. `whole`: not only up to the first
// wrong signature.
template <class Record>
bool Admissions::merge_some(std::vector<Record>& pending, std::vector<Record>& added, Merge& merge,
                            bool whole) {
  bool progress = false;
  std::vector<Record> rest;
  for (Record& record : pending) {
    if (merge.forged && !whole) break;
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
      case Verdict::voided:
        rest.push_back(std::move(record));
        break;
      case Verdict::forged:
        merge.forged |= !whole;
        [[fallthrough]];
      case Verdict::bad:
        merge.refused.push_back(std::move(judged.why));
        break;
    }
  }
  pending = std::move(rest);
  if (progress) settle();
  return progress;
}

// Leaves what is not proven yet.
void Admissions::merge_all(Credentials& pending, Merge& merge, bool whole) {
  bool progress = true;
  for (int pass = 0; progress && pass < kMostPasses && (whole || !merge.forged); ++pass) {
    // Who is put out is so before it can let anybody in.
    progress = merge_some(pending.revocations, merge.added.revocations, merge, whole);
    progress |= merge_some(pending.admissions, merge.added.admissions, merge, whole);
    progress |= merge_some(pending.link_keys, merge.added.link_keys, merge, whole);
  }
  const auto refuse_voided = [&](auto& records) {
    std::erase_if(records, [&](const auto& record) {
      Judged judged = judge(record);
      if (judged.verdict != Verdict::voided) return false;
      merge.refused.push_back(std::move(judged.why));
      return true;
    });
  };
  refuse_voided(pending.revocations);
  refuse_voided(pending.admissions);
}

// What waits for one of those that have arrived, by teller.
std::map<NodeId, Credentials> Admissions::take_awaited() {
  std::map<NodeId, Credentials> awaited;
  for (const NodeId& node : std::exchange(arrived_, {}))
    for (auto& [teller, waiting] : waiting_)
      if (const auto found = waiting.extract(node); !found.empty())
        awaited[teller].add(found.mapped());
  return awaited;
}

// Each teller has room of its own: what one tells takes none from another.
void Admissions::wait_for_more(const NodeId& teller, Credentials unproven) {
  if (unproven.empty()) return;
  const auto weight = [](const auto& of) {
    std::size_t sum = 0;
    for (const auto& [node, records] : of.second) sum += weight_of(records);
    return sum;
  };
  std::erase_if(waiting_, [this](const auto& one) {
    return one.second.empty() || revocations_.contains(one.first);
  });
  if (!waiting_.contains(teller) && waiting_.size() >= kMaxTellers)
    waiting_.erase(std::ranges::max_element(waiting_, {}, weight));
  auto& waiting = waiting_[teller];
  std::size_t room = kMaxWaiting - std::min(kMaxWaiting, weight(std::pair(teller, waiting)));
  const auto keep = [&](const auto& records, auto of) {
    for (const auto& record : records) {
      if (room < weight_of(record)) continue;
      auto& there = waiting[awaited_by(record)].*of;
      if (std::ranges::find(there, record) != there.end()) continue;
      there.push_back(record);
      room -= weight_of(record);
    }
  };
  keep(unproven.revocations, &Credentials::revocations);
  keep(unproven.admissions, &Credentials::admissions);
  keep(unproven.link_keys, &Credentials::link_keys);
}

Result<Admissions::Merge> Admissions::merge(const Credentials& credentials, const NodeId& teller) {
  Merge merge;
  Credentials pending = credentials;
  merge_all(pending, merge, false);
  merge.waiting = pending.size();
  if (!merge.forged) wait_for_more(teller, std::move(pending));
  for (auto awaited = take_awaited(); !awaited.empty(); awaited = take_awaited())
    for (auto& [other, records] : awaited) {
      merge_all(records, merge, true);  // a forged one is not of who tells now
      wait_for_more(other, std::move(records));
    }
  for (const Sighting& sighting : credentials.sightings) note(sighting);
  publish();
  for (const NodeId& node : std::exchange(restored_, {}))
    if (!revocations_.contains(node)) merge.restored.push_back(node);
  // What one is told of who came in, others tell again where it is lost: not a write for each.
  const bool heard = teller != NodeId{};
  if (heard && merge.added.revocations.empty()) return merge;
  if (auto stored = store(); !stored) {
    if (!heard) return stored.error();
    merge.unstored = stored.error();
  }
  return merge;
}

}  // namespace gpunode::security
