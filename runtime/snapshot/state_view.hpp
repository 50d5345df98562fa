// A training state as the snapshot module sees it: named tensors borrowed from whoever owns them,
// so that writing never copies and restoring fills the owner's memory in place. fp32 for now, as
// the trainer's masters are; the file format carries a type for each tensor.
// Owner: the caller; spans must outlive the call they are passed to.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/digest.hpp"

namespace gpunode::snapshot {

// The tensors of a parameter: its values and the optimizer's moments of them.
enum class TensorPart : std::uint8_t { weight = 0, first_moment = 1, second_moment = 2 };
inline constexpr std::array kTensorParts{TensorPart::weight, TensorPart::first_moment,
                                         TensorPart::second_moment};
std::string_view to_string(TensorPart part);

// One T a part.
template <class T>
using ByPart = std::array<T, kTensorParts.size()>;

// One parameter and its tensors, by part. Moments are empty where there are none, or where a
// restore shall not read them.
template <class Float>
struct ParameterOf {
  std::string name;
  std::vector<std::uint64_t> shape;
  ByPart<std::span<Float>> parts;

  std::span<Float> operator[](TensorPart part) const {
    return parts[static_cast<std::size_t>(part)];
  }
};

template <class Float>
struct StateOf {
  std::vector<ParameterOf<Float>> parameters;  // in the model's order; names unique
};

using ParameterView = ParameterOf<const float>;
using StateView = StateOf<const float>;
// Where a restore puts a state.
using ParameterTarget = ParameterOf<float>;
using StateTarget = StateOf<float>;

// What a model is, in the words of its own kind ("gpt": layers, heads ...). Written into exported
// files, so nothing of the job, its members or its times may be in it.
struct ModelDescription {
  std::string kind;
  std::map<std::string, std::string> settings;

  bool operator==(const ModelDescription&) const = default;
};

// XXH3-128 over names, shapes, weights and moments in the given order: equal states have equal
// digests. Cost: one pass over all bytes.
Digest state_digest(const StateView& state);

}  // namespace gpunode::snapshot
