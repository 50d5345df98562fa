#include "actors/compute/device_state.hpp"

#include <algorithm>
#include <numeric>

#include "runtime/base/block_digest.hpp"

namespace gpunode::compute {

Result<DeviceState> DeviceState::allocate(Device& device, std::size_t count) {
  auto memory = device.floats(3 * count);
  if (!memory) return memory.error();
  DeviceState state;
  state.memory_ = *std::move(memory);
  state.count_ = count;
  return state;
}

Result<void> digest_blocks_of(Device& device, const DeviceState& state,
                              std::span<const std::size_t> blocks, std::span<Digest> digests) {
  // Blocks that lie side by side are one call, as far as a call may go.
  const std::size_t most = ops::grain(device.backend(), 8);
  struct Run {
    std::size_t first, count;
  };
  std::vector<Run> runs;
  for (const std::size_t block : blocks) {
    if (!runs.empty() && runs.back().first + runs.back().count == block && runs.back().count < most)
      ++runs.back().count;
    else
      runs.push_back({block, 1});
  }
  const ByteView bytes = state.bytes();
  return device.spread()(runs.size(), [&](ops::Lane& lane, std::size_t index) {
    const auto [first, count] = runs[index];
    const std::size_t begin = first * kDigestBlockBytes;
    const std::size_t end = std::min(bytes.size(), begin + count * kDigestBlockBytes);
    return device.digest_blocks(lane, bytes.subspan(begin, end - begin),
                                digests.subspan(first, count));
  });
}

Result<Digest> digest_of_state(Device& device, const DeviceState& state) {
  std::vector<Digest> digests(digest_block_count(state.bytes().size()));
  std::vector<std::size_t> blocks(digests.size());
  std::iota(blocks.begin(), blocks.end(), std::size_t{0});
  if (auto done = digest_blocks_of(device, state, blocks, digests); !done) return done.error();
  return join_block_digests(digests);
}

}  // namespace gpunode::compute
