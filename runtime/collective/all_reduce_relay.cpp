// Sums and results on their way through a member that is neither the first nor the last to have
// them: of a chunk's inputs whole nodes of the tree, or one sum, are made as soon as they are here,
// sent on towards the owner and kept for whoever asks again; a result goes back to those whose sums
// came from here.
#include "runtime/collective/all_reduce.hpp"

#include <algorithm>
#include <utility>

namespace gpunode::collective {

// Sends whatever the index-th input was the last one of.
void AllReduce::send_on(std::uint32_t chunk, std::size_t index, std::vector<SendTo>& out) {
  const SumStation& station = station_of(chunk);
  Chunk& state = chunks_[chunk];
  state.sums.resize(station.outputs.size());
  for (std::size_t number = 0; number < station.outputs.size(); ++number) {
    const SumStation::Output& output = station.outputs[number];
    const auto is_here = [&](std::uint32_t input) { return state.slots[input].filled; };
    if (std::ranges::count(output.inputs, index) == 0 ||
        !std::ranges::all_of(output.inputs, is_here))
      continue;
    state.sums[number] = sum_of(chunk, output);
    out.push_back({station.next, sent_on(chunk, number)});
  }
  if (state.missing == 0) state.slots = {};
}

// One input goes on as it is, without a copy.
SharedBytes AllReduce::sum_of(std::uint32_t chunk, const SumStation::Output& output) {
  const auto count = static_cast<std::size_t>(options_.layout.size(chunk));
  const Chunk& state = chunks_[chunk];
  if (output.inputs.size() == 1) return state.slots[output.inputs.front()].bytes;
  std::vector<const float*> inputs;
  for (const std::uint32_t input : output.inputs) inputs.push_back(floats_of(chunk, input));
  auto sum = std::make_shared<std::vector<float>>(count);
  output.program.run(inputs, sum->data(), count, options_.add, scratch_);
  const ByteView bytes = std::as_bytes(std::span<const float>(*sum));
  return {std::move(sum), bytes};
}

PartialChunk AllReduce::sent_on(std::uint32_t chunk, std::size_t index) const {
  const SumStation& station = station_of(chunk);
  const SumStation::Output& output = station.outputs[index];
  DataFingerprint data_fingerprint;
  for (const std::uint32_t input : output.inputs)
    data_fingerprint += *station.inputs[input].data_fingerprint;
  return {chunk, output.node, data_fingerprint, chunks_[chunk].sums[index]};
}

void AllReduce::send_result(std::uint32_t chunk, std::vector<SendTo>& out) const {
  for (const std::uint16_t rank : station_of(chunk).before) out.push_back({rank, result_of(chunk)});
}

}  // namespace gpunode::collective
