#include "runtime/collective/chunk_form.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "runtime/base/check.hpp"

namespace gpunode::collective {

static_assert(std::endian::native == std::endian::little, "payloads are little-endian floats");

namespace {

// Vectors by index, of which each call fills one.
class Scratch {
 public:
  std::span<float> of(std::size_t index, std::uint64_t count) {
    if (vectors_.size() <= index) vectors_.resize(index + 1);
    vectors_[index].resize(count);
    return vectors_[index];
  }

 private:
  std::vector<std::vector<float>> vectors_;
};

class PlainForm final : public ChunkForm {
 public:
  void on_begin(std::uint64_t) override {}
  void on_commit() override {}
  void forget() override {}
  void keep(Elements) override {}

  bool is_plain() const override { return true; }
  std::size_t partial_bytes(std::uint64_t count) const override { return count * sizeof(float); }
  std::size_t result_bytes(std::uint64_t count) const override { return count * sizeof(float); }

  SharedBytes pack_partial(const SharedFloats& sum, Elements part, bool) override {
    return sum.part(part);
  }
  const float* unpack_partial(ByteView bytes, std::uint64_t count, std::size_t index) override {
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(float) == 0)
      return reinterpret_cast<const float*>(bytes.data());
    const std::span<float> copy = moved_.of(index, count);
    if (!bytes.empty()) std::memcpy(copy.data(), bytes.data(), bytes.size());
    return copy.data();
  }
  SharedBytes pack_result(std::span<float>, Elements) override { return {}; }
  // The bytes are still in the cache; the place is not, unless they were read there.
  Digest unpack_result(ByteView bytes, std::span<float> place) override {
    const Digest digest = block_digest_of(bytes);
    const bool in_place = bytes.data() == reinterpret_cast<const std::byte*>(place.data());
    if (!bytes.empty() && !in_place) std::memcpy(place.data(), bytes.data(), bytes.size());
    return digest;
  }
  bool repeats_result(ByteView bytes, std::span<const float> place) override {
    return std::ranges::equal(bytes, std::as_bytes(place));
  }

 private:
  Scratch moved_;
};

class PackedForm final : public ChunkForm {
 public:
  explicit PackedForm(std::shared_ptr<const WireForms> forms) : forms_(std::move(forms)) {}

  void on_begin(std::uint64_t element_count) override {
    if (!forms_->feedback) return;
    feedback_.on_begin(element_count);
    // Ours: a form serves one job, whose sums are all of one length.
    GPUNODE_CHECK(feedback_.carried().empty() || feedback_.carried().size() == element_count,
                  "errors of another job");
  }
  void on_commit() override { feedback_.on_commit(); }
  void forget() override { feedback_.forget(); }
  void keep(Elements part) override {
    if (feedback_.carried().empty()) return;
    std::ranges::copy(feedback_.carried().subspan(part.first, part.count),
                      feedback_.lost().subspan(part.first, part.count).begin());
  }

  bool is_plain() const override { return false; }
  std::size_t partial_bytes(std::uint64_t count) const override {
    return forms_->partial.bytes(count);
  }
  std::size_t result_bytes(std::uint64_t count) const override {
    return forms_->result.bytes(count);
  }

  SharedBytes pack_partial(const SharedFloats& sum, Elements part, bool carries) override {
    const std::span<const float> values = std::span(*sum).subspan(part.first, part.count);
    return pack(forms_->partial, part, values, carries, {});
  }
  const float* unpack_partial(ByteView bytes, std::uint64_t count, std::size_t index) override {
    const std::span<float> floats = unpacked_.of(index, count);
    forms_->partial.decode(bytes, floats);
    return floats.data();
  }
  SharedBytes pack_result(std::span<float> place, Elements part) override {
    return pack(forms_->result, part, place, true, place);
  }
  Digest unpack_result(ByteView bytes, std::span<float> place) override {
    forms_->result.decode(bytes, place);
    return block_digest_of(std::as_bytes(place));
  }
  bool repeats_result(ByteView bytes, std::span<const float> place) override {
    const std::span<float> again = unpacked_.of(0, place.size());
    forms_->result.decode(bytes, again);
    return std::ranges::equal(std::as_bytes(again), std::as_bytes(place));
  }

 private:
  // With feedback, `values` plus what was carried over is packed, and the difference to what
  // arrives is remembered.
  SharedBytes pack(const WireForm& form, Elements part, std::span<const float> values, bool carries,
                   std::span<float> arrives) {
    Bytes bytes(form.bytes(values.size()));
    if (!forms_->feedback) {
      form.encode(values, bytes);
      if (!arrives.empty()) form.decode(bytes, arrives);
      return SharedBytes::from(std::move(bytes));
    }
    std::span<const float> carried = feedback_.carried();
    carried = carries && !carried.empty() ? carried.subspan(part.first, part.count)
                                          : std::span<const float>();
    const Feedback with{carried, feedback_.lost().subspan(part.first, part.count), arrives};
    if (form.encode_carrying)
      form.encode_carrying(values, with, bytes);
    else
      pack_in_parts(form, values, with, bytes);
    return SharedBytes::from(std::move(bytes));
  }
  // An error that is not finite belongs to a step that will be skipped.
  void pack_in_parts(const WireForm& form, std::span<const float> values, const Feedback& with,
                     MutableByteView bytes) {
    corrected_.assign(values.begin(), values.end());
    for (std::size_t i = 0; i < with.carried.size(); ++i) corrected_[i] += with.carried[i];
    form.encode(corrected_, bytes);
    const std::span<float> arrived = unpacked_.of(0, values.size());
    form.decode(bytes, arrived);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float error = corrected_[i] - arrived[i];
      with.lost[i] += std::isfinite(error) ? error : 0.0f;
    }
    if (!with.arrives.empty()) std::ranges::copy(arrived, with.arrives.begin());
  }

  std::shared_ptr<const WireForms> forms_;
  ErrorFeedback feedback_;
  std::vector<float> corrected_;
  Scratch unpacked_;
};

}  // namespace

std::shared_ptr<ChunkForm> chunk_form_of(std::shared_ptr<const WireForms> forms) {
  if (!forms) return std::make_shared<PlainForm>();
  return std::make_shared<PackedForm>(std::move(forms));
}

}  // namespace gpunode::collective
