#include "actors/compute/staged_state.hpp"

#include <algorithm>
#include <ranges>
#include <utility>

#include "runtime/base/block_digest.hpp"

namespace gpunode::compute {

Result<void> StagedState::begin(std::uint64_t step, std::uint64_t samples,
                                collective::SharedFloats total) {
  step_ = step;
  samples_ = samples;
  weight_is_here_ = false;
  waiting_.clear();
  const std::size_t count = optimizer_.element_count();
  total_.reset();
  if (made_.count() != count) {
    auto made = DeviceState::allocate(device_, count);
    if (!made) return made.error();
    made_ = *std::move(made);
  }
  blocks_left_ = optimizer_.block_count();
  if (auto grown = device_.pool().grow(squares_, blocks_left_ * sizeof(double)); !grown)
    return grown;
  if (!device_.shares_memory())
    if (auto grown = device_.pool().grow(sum_, count * sizeof(float)); !grown) return grown;
  missing_.resize(blocks_left_);
  for (std::size_t block = 0; block < missing_.size(); ++block)
    missing_[block] = optimizer_.block(block).count;
  first_missing_ = ready_ = 0;
  const std::size_t bytes = made_.bytes().size();
  digests_.resize(digest_block_count(bytes));
  unhashed_.assign(digests_.size(), kDigestBlockBytes);
  unhashed_.back() = bytes - (digests_.size() - 1) * kDigestBlockBytes;
  total_ = std::move(total);
  return {};
}

Result<void> StagedState::add(std::uint64_t first, std::uint64_t count,
                              const DeviceState& standing) {
  waiting_.push_back({first, count});
  weight_is_here_ = weight_is_here_ || first + count == total_.size();
  // Without anything predicted there is no update to make: the step will be skipped.
  if (!weight_is_here_ || !(over().weight > 0)) return {};
  for (const model::ElementRange& part : std::exchange(waiting_, {}))
    if (auto done = add_part(part, standing); !done) return done;
  return {};
}

Result<void> StagedState::add_part(const model::ElementRange& part, const DeviceState& standing) {
  const std::size_t first = part.first;
  const std::size_t end = std::min(first + part.count, made_.count());
  std::vector<std::size_t> made;
  const auto blocks = std::views::iota(std::size_t{0}, missing_.size());
  const auto after = std::ranges::partition_point(
      blocks, [&](std::size_t block) { return optimizer_.block(block).first <= first; });
  const std::size_t begin = after == blocks.begin() ? 0 : *(after - 1);
  for (std::size_t block = begin; block < missing_.size(); ++block) {
    const model::ElementRange range = optimizer_.block(block);
    if (range.first >= end) break;
    const std::uint64_t from = std::max<std::uint64_t>(first, range.first);
    const std::uint64_t to = std::min<std::uint64_t>(end, range.first + range.count);
    if (from >= to) continue;
    GPUNODE_CHECK(missing_[block] >= to - from, "an element of the sum was told twice");
    missing_[block] -= to - from;
    if (missing_[block] == 0) made.push_back(block);
  }
  if (auto done = make(made, standing); !done) return done;
  blocks_left_ -= made.size();
  while (first_missing_ < missing_.size() && missing_[first_missing_] == 0) {
    const model::ElementRange range = optimizer_.block(first_missing_++);
    ready_ = range.first + range.count;
  }
  return hash_whole_blocks(made);
}

// The sum's part comes to the device with the blocks that need it.
Result<void> StagedState::make(const std::vector<std::size_t>& blocks,
                               const DeviceState& standing) {
  const model::Adamw::Reach reach{step_, 1.0 / over().weight, over().samples};
  const std::span<const float> host = std::span(*total_).first(made_.count());
  const std::span<const float> sum =
      device_.shares_memory() ? host : std::span(sum_.as<const float>(), host.size());
  std::vector<model::Adamw::Blocks> runs;  // of blocks that lie side by side
  for (const std::size_t block : blocks) {
    const bool goes_on = !runs.empty() && runs.back().first + runs.back().count == block &&
                         runs.back().count < optimizer_.blocks_at_once();
    if (goes_on)
      ++runs.back().count;
    else
      runs.push_back({block, 1});
  }
  return device_.spread()(runs.size(), [&](ops::Lane& lane, std::size_t index) {
    const model::ElementRange range = optimizer_.elements_of(runs[index]);
    Result<void> done;
    if (sum.data() != host.data())
      done = lane.upload(std::as_bytes(host.subspan(range.first, range.count)),
                         sum_.as<float>() + range.first);
    if (done) done = optimizer_.square_sums(lane, runs[index], sum, squares_.as<double>());
    for (std::size_t part = 0; part < 3 && done; ++part) {
      const std::size_t place = part * made_.count() + range.first;
      done = lane.backend().copy(lane.stream(), standing.all().data() + place,
                                 made_.all().data() + place, range.count * sizeof(float));
    }
    return done ? optimizer_.update(lane, runs[index], reach, sum, made_.values()) : done;
  });
}

Result<void> StagedState::hash_whole_blocks(std::span<const std::size_t> made) {
  std::vector<std::size_t> whole;
  for (const std::size_t block : made) {
    const model::ElementRange range = optimizer_.block(block);
    for (std::size_t part = 0; part < 3; ++part) {
      std::size_t at = (part * made_.count() + range.first) * sizeof(float);
      const std::size_t end = at + range.count * sizeof(float);
      while (at < end) {
        const std::size_t place = at / kDigestBlockBytes;
        const std::size_t bytes = std::min(end, (place + 1) * kDigestBlockBytes) - at;
        unhashed_[place] -= bytes;
        if (unhashed_[place] == 0) whole.push_back(place);
        at += bytes;
      }
    }
  }
  std::ranges::sort(whole);
  return digest_blocks_of(device_, made_, whole, digests_);
}

Result<std::optional<model::StepOutcome>> StagedState::take(DeviceState& standing) {
  if (!total_ || blocks_left_ > 0) return std::optional<model::StepOutcome>();
  const auto squares = model::download_squares(device_.spread(), squares_.as<const double>(),
                                               optimizer_.block_count());
  if (!squares) return squares.error();
  const model::StepOutcome outcome = optimizer_.outcome_of(step_, over(), *squares);
  if (outcome.skipped || outcome.scale != 1.0 / over().weight)
    return std::optional<model::StepOutcome>();
  std::swap(standing, made_);
  total_.reset();
  return std::optional(outcome);
}

Digest StagedState::digest() const {
  return join_block_digests(digests_);
}

}  // namespace gpunode::compute
