// A training state as the snapshot module sees it: named tensors borrowed from whoever owns them,
// so that writing never copies and restoring fills the owner's memory in place. fp32 for now, as
// the trainer's masters are; the file format carries a type for each tensor.
// Owner: the caller; spans must outlive the call they are passed to.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/digest.hpp"

namespace gpunode::snapshot {

// One parameter tensor and its optimizer moments. Both moments are empty where there are none.
struct ParameterView {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::span<const float> weight;
  std::span<const float> first_moment;   // AdamW's m
  std::span<const float> second_moment;  // AdamW's v
};

struct StateView {
  std::vector<ParameterView> parameters;  // in the model's order; names unique
};

// Where a restore puts a parameter. Empty moments are not read.
struct ParameterTarget {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::span<float> weight;
  std::span<float> first_moment;
  std::span<float> second_moment;
};

struct StateTarget {
  std::vector<ParameterTarget> parameters;
};

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
