// Chunks that travel in another form than their floats: encoded once and kept for re-sends, so that
// a chunk's bytes are always the same; decoded where they are summed or are a result.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "runtime/collective/detail/all_reduce_state.hpp"

namespace gpunode::collective {

// What this member would lose for good, as it has no partial sum to add it to.
void AllReduce::State::begin_feedback() {
  if (!feedback()) return;
  ErrorFeedback& errors = *options.feedback;
  errors.on_begin(options.layout.element_count);
  GPUNODE_CHECK(errors.carried().empty() || errors.carried().size() == errors.lost().size(),
                "errors of another job");
  if (first_own() != nullptr || errors.carried().empty()) return;
  for (std::uint32_t chunk = 0; chunk < chunks.size(); ++chunk)
    if (owner_of(chunk) != options.rank)
      std::ranges::copy(
          errors.carried().subspan(options.layout.first(chunk), options.layout.size(chunk)),
          errors.lost().begin() + static_cast<std::ptrdiff_t>(options.layout.first(chunk)));
}

const AllReduce::State::CoverNode* AllReduce::State::first_own() const {
  return cover.empty() ? nullptr : &cover.front();
}

std::size_t AllReduce::State::partial_bytes(std::uint32_t chunk) const {
  const std::uint64_t count = options.layout.size(chunk);
  return options.forms ? options.forms->partial.bytes(count) : count * sizeof(float);
}

std::size_t AllReduce::State::result_bytes(std::uint32_t chunk) const {
  const std::uint64_t count = options.layout.size(chunk);
  return options.forms ? options.forms->result.bytes(count) : count * sizeof(float);
}

// With feedback, `values` plus what was carried is encoded, and the difference to what arrives is
// remembered. An error that is not finite belongs to a step that will be skipped.
SharedBytes AllReduce::State::encode(const WireForm& form, std::uint32_t chunk, const float* values,
                                     bool carry, float* arrives) {
  const std::size_t first = options.layout.first(chunk);
  const std::size_t count = options.layout.size(chunk);
  Bytes bytes(form.bytes(count));
  const std::span<float> there(arrives, arrives ? count : 0);
  if (!feedback()) {
    form.encode({values, count}, bytes);
    if (arrives) form.decode(bytes, there);
    return SharedBytes::from(std::move(bytes));
  }
  std::span<const float> carried = options.feedback->carried();
  carried = carry && !carried.empty() ? carried.subspan(first, count) : std::span<const float>();
  const Carry with{carried, options.feedback->lost().subspan(first, count), there};
  if (form.encode_carrying)
    form.encode_carrying({values, count}, with, bytes);
  else
    encode_in_parts(form, {values, count}, with, bytes);
  return SharedBytes::from(std::move(bytes));
}

void AllReduce::State::encode_in_parts(const WireForm& form, std::span<const float> values,
                                       const Carry& with, MutableByteView bytes) {
  corrected.assign(values.begin(), values.end());
  for (std::size_t i = 0; i < with.carried.size(); ++i) corrected[i] += with.carried[i];
  form.encode(corrected, bytes);
  decoded_again.resize(values.size());
  form.decode(bytes, decoded_again);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float error = corrected[i] - decoded_again[i];
    with.lost[i] += std::isfinite(error) ? error : 0.0f;
  }
  if (!with.arrives.empty()) std::ranges::copy(decoded_again, with.arrives.begin());
}

const SharedBytes& AllReduce::State::encoded_partial(CoverNode& cover_node, std::uint32_t chunk) {
  cover_node.encoded.resize(chunks.size());
  SharedBytes& bytes = cover_node.encoded[chunk];
  if (!bytes.owner)
    bytes =
        encode(options.forms->partial, chunk, cover_node.own->data() + options.layout.first(chunk),
               &cover_node == first_own(), nullptr);
  return bytes;
}

// The slot's floats, decoded into the index-th of a few vectors that serve all chunks.
const float* AllReduce::State::floats_of(const Slot& slot, std::size_t index, std::uint32_t chunk) {
  if (!slot.is_encoded()) return slot.values;
  decoded.resize(chunks[chunk].slots.size());
  decoded[index].resize(options.layout.size(chunk));
  options.forms->partial.decode(slot.encoded, decoded[index]);
  return decoded[index].data();
}

// The owner's sum becomes what the others will make of its bytes.
void AllReduce::State::encode_result(std::uint32_t chunk) {
  float* place = buffer->data() + options.layout.first(chunk);
  chunks[chunk].encoded = encode(options.forms->result, chunk, place, true, place);
}

// Whether a second result of a chunk says what the first one said.
bool AllReduce::State::repeats_result(std::uint32_t chunk, ByteView bytes) {
  if (!options.forms) return std::ranges::equal(bytes, place_of(chunk));
  corrected.resize(options.layout.size(chunk));
  options.forms->result.decode(bytes, corrected);
  return std::ranges::equal(std::as_bytes(std::span<const float>(corrected)), place_of(chunk));
}

}  // namespace gpunode::collective
