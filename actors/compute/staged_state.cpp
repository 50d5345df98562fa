#include "actors/compute/staged_state.hpp"

#include <algorithm>
#include <array>
#include <ranges>
#include <utility>

#include "runtime/base/block_digest.hpp"

namespace gpunode::compute {

namespace {

using Parts = std::array<ByteView, 3>;

// A block may span two parts of the state.
Digest digest_of_block(const Parts& parts, std::size_t block) {
  const std::size_t part_bytes = parts[0].size();
  const std::size_t begin = block * kDigestBlockBytes;
  const std::size_t end = std::min(begin + kDigestBlockBytes, 3 * part_bytes);
  if (begin == end) return digest_of(ByteView());
  if (begin / part_bytes == (end - 1) / part_bytes)
    return digest_of(parts[begin / part_bytes].subspan(begin % part_bytes, end - begin));
  DigestStream stream;
  for (std::size_t at = begin; at < end;) {
    const std::size_t offset = at % part_bytes, count = std::min(part_bytes - offset, end - at);
    stream.add(parts[at / part_bytes].subspan(offset, count));
    at += count;
  }
  return stream.value();
}

}  // namespace

Digest digest_of_state(std::span<const float> weights, const model::Adamw& optimizer,
                       const model::Parallel& parallel) {
  const Parts parts = {bytes_of(weights), bytes_of(optimizer.first_moment()),
                       bytes_of(optimizer.second_moment())};
  std::vector<Digest> blocks(digest_block_count(3 * parts[0].size()));
  parallel(blocks.size(),
           [&](std::size_t block) { blocks[block] = digest_of_block(parts, block); });
  return join_block_digests(blocks);
}

StagedState::StagedState(model::Adamw& optimizer, model::Parallel parallel)
    : optimizer_(optimizer), parallel_(std::move(parallel)) {}

void StagedState::begin(std::uint64_t step, std::uint64_t token_count,
                        collective::SharedFloats total) {
  step_ = step;
  token_count_ = token_count;
  total_ = std::move(total);
  const std::size_t count = optimizer_.first_moment().size();
  for (std::vector<float>* part : {&weights_, &first_, &second_}) part->resize(count);
  blocks_left_ = optimizer_.block_count();
  squares_.assign(blocks_left_, 0.0);
  missing_.resize(blocks_left_);
  for (std::size_t block = 0; block < missing_.size(); ++block)
    missing_[block] = optimizer_.block(block).count;
  first_missing_ = ready_ = 0;
  const std::size_t bytes = 3 * count * sizeof(float);
  digests_.resize(digest_block_count(bytes));
  unhashed_.assign(digests_.size(), kDigestBlockBytes);
  unhashed_.back() = bytes - (digests_.size() - 1) * kDigestBlockBytes;
}

void StagedState::add(std::uint64_t first, std::uint64_t count, std::span<const float> weights) {
  const std::uint64_t end = std::min<std::uint64_t>(first + count, weights_.size());
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
  const double scale = 1.0 / static_cast<double>(token_count_);
  const std::span<const float> sum = std::span(*total_).first(weights_.size());
  parallel_(made.size(), [&](std::size_t index) {
    const model::ElementRange range = optimizer_.block(made[index]);
    squares_[made[index]] = optimizer_.square_sum(made[index], sum);
    const std::pair<const float*, float*> copies[] = {
        {weights.data(), weights_.data()},
        {std::as_const(optimizer_).first_moment().data(), first_.data()},
        {std::as_const(optimizer_).second_moment().data(), second_.data()}};
    for (const auto& [from, to] : copies)
      std::copy_n(from + range.first, range.count, to + range.first);
    optimizer_.update(made[index], step_, scale, sum, {weights_, first_, second_});
  });
  blocks_left_ -= made.size();
  while (first_missing_ < missing_.size() && missing_[first_missing_] == 0) {
    const model::ElementRange range = optimizer_.block(first_missing_++);
    ready_ = range.first + range.count;
  }
  hash_whole_blocks(made);
}

void StagedState::hash_whole_blocks(std::span<const std::size_t> made) {
  const Parts parts = {bytes_of(std::span<const float>(weights_)),
                       bytes_of(std::span<const float>(first_)),
                       bytes_of(std::span<const float>(second_))};
  std::vector<std::size_t> whole;
  for (const std::size_t block : made) {
    const model::ElementRange range = optimizer_.block(block);
    for (std::size_t part = 0; part < parts.size(); ++part) {
      std::size_t at = part * parts[0].size() + range.first * sizeof(float);
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
  parallel_(whole.size(), [&](std::size_t index) {
    digests_[whole[index]] = digest_of_block(parts, whole[index]);
  });
}

std::optional<model::StepOutcome> StagedState::take(std::vector<float>& weights) {
  if (!total_ || blocks_left_ > 0) return std::nullopt;
  const model::StepOutcome outcome = optimizer_.outcome_of(step_, token_count_, squares_);
  if (outcome.skipped || outcome.scale != 1.0 / static_cast<double>(token_count_))
    return std::nullopt;
  weights.swap(weights_);
  optimizer_.swap_moments(first_, second_);
  total_.reset();
  return outcome;
}

Digest StagedState::digest() const {
  return join_block_digests(digests_);
}

}  // namespace gpunode::compute
