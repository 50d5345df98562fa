// A small training state with known values, for the tests of the snapshot module.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/rng.hpp"
#include "runtime/snapshot/manifest.hpp"
#include "runtime/snapshot/state_view.hpp"

namespace gpunode::snapshot::testing {

class State {
 public:
  explicit State(std::uint64_t seed = 1, std::uint64_t large = 300'000) {
    Rng rng(seed);
    add(rng, "embedding", {large / 100, 100});
    add(rng, "blocks.0.weight", {7, 5});
    add(rng, "blocks.0.bias", {5});
    add(rng, "scale", {});
  }
  StateView view(bool moments = true) const {
    StateView state;
    for (const Parameter& p : parameters_)
      state.parameters.push_back(
          {p.name,
           p.shape,
           {p.values[0], moments ? std::span<const float>(p.values[1]) : std::span<const float>(),
            moments ? std::span<const float>(p.values[2]) : std::span<const float>()}});
    return state;
  }
  StateTarget target() {
    StateTarget target;
    for (Parameter& p : parameters_)
      target.parameters.push_back({p.name, p.shape, {p.values[0], p.values[1], p.values[2]}});
    return target;
  }

 private:
  struct Parameter {
    std::string name;
    std::vector<std::uint64_t> shape;
    std::vector<float> values[3];
  };
  void add(Rng& rng, std::string name, std::vector<std::uint64_t> shape) {
    Parameter parameter{std::move(name), std::move(shape), {}};
    std::uint64_t count = 1;
    for (std::uint64_t extent : parameter.shape) count *= extent;
    for (auto& values : parameter.values) {
      values.resize(count);
      for (float& value : values) value = static_cast<float>(rng.uniform() - 0.5);
    }
    parameters_.push_back(std::move(parameter));
  }
  std::vector<Parameter> parameters_;
};

inline CheckpointMeta meta_of(std::uint64_t step, std::uint32_t turn = 0) {
  CheckpointMeta meta;
  meta.key = {JobId{0x1122334455667788, 0x99aabbccddeeff00}, {turn, 7}, step};
  meta.job_name = "letters";
  meta.model = {"gpt", {{"layers", "4"}, {"heads", "4"}}};
  meta.sample_sum = {3, 4};
  meta.sample_count = step * 12;
  meta.state_digest = {5, 6};
  meta.unix_seconds = 1'700'000'000;
  return meta;
}

}  // namespace gpunode::snapshot::testing
