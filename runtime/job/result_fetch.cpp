#include "runtime/job/result_fetch.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/collective/result_digest.hpp"

namespace gpunode::job {

ResultFetch::ResultFetch(Options options) : options_(options), next_(options.first_step) {}

std::uint64_t ResultFetch::part_count() const {
  const std::uint64_t bytes = options_.element_count * sizeof(float);
  return (bytes + options_.part_bytes - 1) / options_.part_bytes;
}

std::uint32_t ResultFetch::part_size(std::uint64_t part) const {
  const std::uint64_t left = options_.element_count * sizeof(float) - part * options_.part_bytes;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(options_.part_bytes, left));
}

// Reads that waited for their step count as asked from now on.
void ResultFetch::hear_of(Time now, std::uint64_t committed) {
  if (committed <= told_) return;
  for (auto& [place, asked] : under_way_)
    if (place.first > told_ && place.first <= committed) asked.at = now;
  told_ = committed;
}

void ResultFetch::on_source(Time now, const NodeId& node, std::uint64_t committed,
                            std::uint64_t first_kept) {
  Source& source = sources_[node];
  source.committed = std::max(source.committed, committed);
  source.first_kept = first_kept;
  if (source.timeout == Duration{}) source.timeout = options_.first_timeout;
  hear_of(now, committed);
}

void ResultFetch::set_sources(const std::vector<NodeId>& nodes) {
  for (auto it = sources_.begin(); it != sources_.end();) {
    const NodeId node = (it++)->first;
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) drop(node);
  }
}

void ResultFetch::drop(const NodeId& node) {
  lose(node);
  sources_.erase(node);
  told_ = 0;  // what it alone has told of nobody else can give
  for (const auto& [other, source] : sources_) told_ = std::max(told_, source.committed);
}

void ResultFetch::limit_to(std::uint64_t last_step) {
  options_.last_step = last_step;
  for (auto it = under_way_.upper_bound({last_step, ~std::uint64_t{0}}); it != under_way_.end();) {
    const auto [place, asked] = *it;
    under_way_bytes_ -= part_size(place.second);
    if (const auto source = sources_.find(asked.source); source != sources_.end())
      source->second.load_bytes -= part_size(place.second);
    it = under_way_.erase(it);
  }
}

void ResultFetch::lose(const NodeId& node) {
  const auto source = sources_.find(node);
  for (auto it = under_way_.begin(); it != under_way_.end();) {
    if (it->second.source != node) {
      ++it;
      continue;
    }
    under_way_bytes_ -= part_size(it->first.second);
    it = under_way_.erase(it);
  }
  if (source != sources_.end()) source->second.load_bytes = 0;
}

bool ResultFetch::fell_behind() const {
  return !sources_.empty() && std::all_of(sources_.begin(), sources_.end(), [&](const auto& one) {
    return one.second.committed >= next_ && one.second.first_kept > next_;
  });
}

void ResultFetch::on_part(Time now, const NodeId& from, const ResultPart& part, Effects& out) {
  const auto source = sources_.find(from);
  if (source == sources_.end() || part.offset % options_.part_bytes != 0) return;
  const std::uint64_t number = part.offset / options_.part_bytes;
  const auto asked = under_way_.find({part.step, number});
  if (asked == under_way_.end() || number >= part_count()) return;
  if (part.payload.size() != part_size(number)) return;
  const Duration took = now - std::max(asked->second.at, source->second.progress);
  source->second.timeout = std::clamp(4 * took, options_.timeout, 3 * options_.first_timeout);
  source->second.progress = now;
  source->second.committed = std::max(source->second.committed, part.step);
  hear_of(now, part.step);
  if (const auto owed = sources_.find(asked->second.source); owed != sources_.end())
    owed->second.load_bytes -= part_size(number);
  under_way_bytes_ -= part_size(number);
  under_way_.erase(asked);
  Growing& result = growing_[part.step];
  if (!result.values) {
    result.values = std::make_shared<std::vector<float>>(options_.element_count);
    result.have.assign(part_count(), false);
    result.missing = part_count();
    result.digest = part.digest;
    result.data_fingerprint = part.data_fingerprint;
  }
  if (result.digest != part.digest || !(result.data_fingerprint == part.data_fingerprint)) {
    out.report = "members offer different results of step " + std::to_string(part.step);
    growing_.erase(part.step);
    return;
  }
  if (result.have[number]) return;
  std::memcpy(reinterpret_cast<std::byte*>(result.values->data()) + part.offset,
              part.payload.view.data(), part.payload.size());
  result.have[number] = true;
  --result.missing;
  received_bytes_ += part.payload.size();
}

std::optional<ResultFetch::Complete> ResultFetch::take(Time now, Effects& out) {
  const auto found = growing_.find(next_);
  if (found == growing_.end() || found->second.missing > 0) return std::nullopt;
  Growing result = std::move(found->second);
  growing_.erase(found);
  const auto layout = collective::ChunkLayout::of(options_.element_count);
  if (collective::result_digest_of(layout, *result.values, result.data_fingerprint) !=
      result.digest) {
    out.report = "a received result of step " + std::to_string(next_) +
                 " does not match its digest; fetching it again";
    ask_more(now, out);
    return std::nullopt;
  }
  Complete complete{next_++, std::move(result.values), result.digest, result.data_fingerprint};
  ask_more(now, out);
  return complete;
}

void ResultFetch::on_tick(Time now, Effects& out) {
  drop_late(now);
  ask_more(now, out);
}

// Late is who has sent nothing at all for a while, though the step is committed: on a slow link
// parts come late one by one.
void ResultFetch::drop_late(Time now) {
  for (auto it = under_way_.begin(); it != under_way_.end();) {
    const auto source = sources_.find(it->second.source);
    const bool waits = it->first.first > told_;
    const Time since =
        source == sources_.end() ? it->second.at : std::max(it->second.at, source->second.progress);
    const Duration timeout = source == sources_.end() ? Duration{} : source->second.timeout;
    if (waits || now < since + timeout) {
      ++it;
      continue;
    }
    under_way_bytes_ -= part_size(it->first.second);
    if (source != sources_.end()) source->second.load_bytes -= part_size(it->first.second);
    it = under_way_.erase(it);
  }
}

void ResultFetch::ask_more(Time now, Effects& out) {
  if (sources_.empty()) return;
  // Not beyond what members let wait.
  const std::uint64_t ahead = std::max(told_, next_ - 1) + options_.window_steps;
  const std::uint64_t last =
      std::min({options_.last_step, ahead, next_ + options_.window_steps - 1});
  for (std::uint64_t step = next_; step <= last; ++step) {
    const auto growing = growing_.find(step);
    for (std::uint64_t part = 0; part < part_count(); ++part) {
      if (growing != growing_.end() && growing->second.have[part]) continue;
      if (under_way_.contains({step, part})) continue;
      if (!ask(now, {step, part}, out)) return;
    }
  }
}

// False: the window is full, or nobody can be asked.
bool ResultFetch::ask(Time now, Place place, Effects& out) {
  const std::uint32_t size = part_size(place.second);
  if (under_way_bytes_ > 0 && under_way_bytes_ + size > options_.window_bytes) return false;
  Source* best = nullptr;
  const NodeId* who = nullptr;
  for (auto& [node, source] : sources_) {
    if (source.first_kept > place.first && source.committed >= place.first) continue;
    if (best && source.load_bytes >= best->load_bytes) continue;
    best = &source;
    who = &node;
  }
  if (!best) return false;
  best->load_bytes += size;
  under_way_bytes_ += size;
  under_way_[place] = {*who, now};
  out.sends.push_back({*who, ResultRead{place.first, place.second * options_.part_bytes, size}});
  return true;
}

}  // namespace gpunode::job
