#include "runtime/job/result_log.hpp"

#include <algorithm>

namespace gpunode::job {

namespace {
constexpr std::size_t kMaxWaiting = 256;      // of one learner
constexpr std::uint64_t kMaxStepsAhead = 64;  // of the newest
constexpr std::size_t kMaxLearners = 64;

std::uint64_t bytes_of_entry(const ResultLog::Entry& entry) {
  return entry.result.size() * sizeof(float);
}
}  // namespace

void ResultLog::add(Entry entry, std::vector<StateSource::Reply>& out) {
  if (!entries_.empty() && entry.step != entries_.back().step + 1) entries_.clear();
  entries_.push_back(std::move(entry));
  const Entry& newest = entries_.back();
  for (auto& [node, reads] : waiting_)
    std::erase_if(reads, [&, to = node](const ResultRead& read) {
      if (read.step == newest.step && read.offset < bytes_of_entry(newest))
        out.push_back(part_of(to, read, newest));
      return read.step <= newest.step;
    });
  std::erase_if(waiting_, [](const auto& one) { return one.second.empty(); });
}

void ResultLog::trim(std::uint64_t max_bytes) {
  std::uint64_t bytes = 0;
  for (const Entry& entry : entries_) bytes += bytes_of_entry(entry);
  while (entries_.size() > 1 && bytes > max_bytes) {
    bytes -= bytes_of_entry(entries_.front());
    entries_.pop_front();
  }
  // Those that wait for a learner wait in the host's memory.
  for (std::size_t at = 0; at + 1 < entries_.size(); ++at) entries_[at].result.bring();
}

void ResultLog::clear() {
  entries_.clear();
  waiting_.clear();
}

std::uint64_t ResultLog::first_step(std::uint64_t committed) const {
  const bool kept = !entries_.empty() && entries_.back().step >= committed;
  return kept ? entries_.front().step : committed + 1;
}

const ResultLog::Entry* ResultLog::find(std::uint64_t step) const {
  if (entries_.empty() || step < entries_.front().step || step > entries_.back().step)
    return nullptr;
  return &entries_[step - entries_.front().step];
}

StateSource::Reply ResultLog::part_of(const NodeId& to, const ResultRead& read,
                                      const Entry& entry) {
  const SharedBytes bytes = entry.result.part({0, entry.result.size()});
  const std::uint64_t length = std::min<std::uint64_t>(read.length, bytes.size() - read.offset);
  return {to, ResultPart{entry.step, read.offset, entry.digest, entry.data_fingerprint,
                         bytes.part(read.offset, length)}};
}

void ResultLog::on_read(const NodeId& from, const ResultRead& read, std::uint64_t committed,
                        std::uint32_t part_bytes, std::vector<StateSource::Reply>& out) {
  if (read.length == 0 || read.length > part_bytes) return;
  if (const Entry* entry = find(read.step)) {
    if (read.offset < bytes_of_entry(*entry)) out.push_back(part_of(from, read, *entry));
    return;
  }
  if (read.step <= committed || read.step > committed + kMaxStepsAhead) return;
  if (!waiting_.contains(from) && waiting_.size() >= kMaxLearners) return;
  std::vector<ResultRead>& reads = waiting_[from];
  const bool known = std::any_of(reads.begin(), reads.end(), [&](const ResultRead& one) {
    return one.step == read.step && one.offset == read.offset;
  });
  if (!known && reads.size() < kMaxWaiting) reads.push_back(read);
}

}  // namespace gpunode::job
