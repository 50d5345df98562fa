// Chunks that travel in another form than their floats: encoded once and kept for re-sends, so that
// a chunk's bytes are always the same; decoded where they are summed or are a result.
#include <cmath>
#include <cstring>
#include <utility>

#include "runtime/collective/detail/exchange_state.hpp"

namespace gpunode::collective {

// What this member would lose for good, as it has no partial sum to add it to.
void ExactExchange::State::begin_feedback() {
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

const ExactExchange::State::CoverNode* ExactExchange::State::first_own() const {
  for (const CoverNode& cover_node : cover)
    if (cover_node.rank == options.rank) return &cover_node;
  return nullptr;
}

std::size_t ExactExchange::State::partial_bytes(std::uint32_t chunk) const {
  const std::uint64_t count = options.layout.size(chunk);
  return options.forms ? options.forms->partial.bytes(count) : count * sizeof(float);
}

std::size_t ExactExchange::State::result_bytes(std::uint32_t chunk) const {
  const std::uint64_t count = options.layout.size(chunk);
  return options.forms ? options.forms->result.bytes(count) : count * sizeof(float);
}

// With feedback, `values` plus what was carried is encoded, and the difference to what arrives is
// remembered. An error that is not finite belongs to a step that will be skipped.
SharedBytes ExactExchange::State::encode(const WireForm& form, std::uint32_t chunk,
                                         const float* values, bool carry) {
  const std::size_t first = options.layout.first(chunk);
  const std::size_t count = options.layout.size(chunk);
  Bytes bytes(form.bytes(count));
  if (!feedback()) {
    form.encode({values, count}, bytes);
    return SharedBytes::from(std::move(bytes));
  }
  corrected.assign(values, values + count);
  const std::span<const float> carried = options.feedback->carried();
  if (carry && !carried.empty())
    for (std::size_t i = 0; i < count; ++i) corrected[i] += carried[first + i];
  form.encode(corrected, bytes);
  arrives.resize(count);
  form.decode(bytes, arrives);
  float* lost = options.feedback->lost().data() + first;
  for (std::size_t i = 0; i < count; ++i) {
    const float error = corrected[i] - arrives[i];
    lost[i] += std::isfinite(error) ? error : 0.0f;
  }
  return SharedBytes::from(std::move(bytes));
}

const SharedBytes& ExactExchange::State::encoded_partial(CoverNode& cover_node,
                                                         std::uint32_t chunk) {
  cover_node.encoded.resize(chunks.size());
  SharedBytes& bytes = cover_node.encoded[chunk];
  if (!bytes.owner)
    bytes =
        encode(options.forms->partial, chunk, cover_node.own->data() + options.layout.first(chunk),
               &cover_node == first_own());
  return bytes;
}

// The slot's floats, decoded into the index-th of a few vectors that serve all chunks.
const float* ExactExchange::State::floats_of(const Slot& slot, std::size_t index,
                                             std::uint32_t chunk) {
  if (!slot.is_encoded) return slot.values;
  decoded.resize(cover.size());
  decoded[index].resize(options.layout.size(chunk));
  options.forms->partial.decode(slot.encoded, decoded[index]);
  return decoded[index].data();
}

// The owner's sum becomes what the others will make of its bytes.
void ExactExchange::State::encode_result(std::uint32_t chunk) {
  float* place = buffer->data() + options.layout.first(chunk);
  chunks[chunk].encoded = encode(options.forms->result, chunk, place, true);
  options.forms->result.decode(chunks[chunk].encoded.view,
                               {place, static_cast<std::size_t>(options.layout.size(chunk))});
}

// Whether a second result of a chunk says what the first one said.
bool ExactExchange::State::repeats_result(std::uint32_t chunk, ByteView bytes) {
  if (!options.forms) return std::ranges::equal(bytes, place_of(chunk));
  corrected.resize(options.layout.size(chunk));
  options.forms->result.decode(bytes, corrected);
  return std::ranges::equal(std::as_bytes(std::span<const float>(corrected)), place_of(chunk));
}

}  // namespace gpunode::collective
