#include "tests/sim/job_model.hpp"

#include <map>
#include <tuple>

#include "runtime/base/block_digest.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::sim {

namespace {
float value_of(std::uint64_t bits) {
  // Magnitudes over nine binades, so that the order of additions shows in the last bits.
  const float unit = static_cast<float>(static_cast<std::int32_t>(bits >> 32)) * 0x1p-31f;
  return unit * static_cast<float>(1u << (bits & 7u));
}
}  // namespace

std::vector<float> JobModel::initial_state() const {
  std::vector<float> state(element_count);
  for (std::size_t i = 0; i < state.size(); ++i) state[i] = value_of(mix(seed, i));
  return state;
}

std::vector<float> JobModel::slice_gradient(const Digest& state, std::uint64_t step,
                                            std::uint32_t slice, std::uint64_t salt) const {
  std::vector<float> gradient(element_count);
  const std::uint64_t key = mix(state.low ^ state.high ^ salt, step * 8192 + slice);
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = value_of(mix(key, i));
  return gradient;
}

collective::SharedFloats JobModel::node_sum(const Digest& state, std::uint64_t step,
                                            collective::TreeNode node, std::uint64_t salt) const {
  const auto children = tree.children(node);
  if (children.empty())
    return std::make_shared<const std::vector<float>>(
        slice_gradient(state, step, node.index, salt));
  auto sum = std::make_shared<std::vector<float>>(element_count);
  bool first = true;
  for (const collective::TreeNode& child : children) {
    const auto part = node_sum(state, step, child, salt);
    for (std::size_t i = 0; i < element_count; ++i)
      (*sum)[i] = first ? (*part)[i] : (*sum)[i] + (*part)[i];
    first = false;
  }
  return sum;
}

collective::DataFingerprint JobModel::node_fed(std::uint64_t step,
                                               collective::TreeNode node) const {
  constexpr std::uint64_t kSamplesPerSlice = 3;
  collective::DataFingerprint data_fingerprint;
  const std::uint32_t first = tree.first_slice(node);
  for (std::uint32_t slice = first; slice < first + tree.width(node.level); ++slice)
    for (std::uint64_t sample = 0; sample < kSamplesPerSlice; ++sample) {
      const std::uint64_t position =
          ((step - 1) * tree.slice_count() + slice) * kSamplesPerSlice + sample;
      data_fingerprint.hash_sum += Digest{mix(11, position), mix(13, position)};
      ++data_fingerprint.sample_count;
    }
  return data_fingerprint;
}

void JobModel::apply(std::vector<float>& state, std::uint64_t step,
                     const std::vector<float>& result) {
  const float rate = 0.01f / static_cast<float>(step % 7 + 1);
  for (std::size_t i = 0; i < state.size(); ++i) state[i] = state[i] * 0.875f - result[i] * rate;
}

SharedBytes JobModel::bytes_of_state(const std::vector<float>& state) const {
  Bytes bytes = to_bytes(bytes_of(std::span<const float>(state)));
  bytes.resize(bytes.size() + ballast_bytes);
  return SharedBytes::from(std::move(bytes));
}

void JobModel::add(float* out, std::span<const float* const> inputs, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    float sum = inputs[0][i];
    for (std::size_t j = 1; j < inputs.size(); ++j) sum += inputs[j][i];
    out[i] = sum;
  }
}

const Truth& truth_of(const JobModel& model) {
  using Key = std::tuple<std::vector<std::uint32_t>, std::uint64_t, std::uint64_t, std::uint64_t,
                         std::uint64_t>;
  static std::map<Key, Truth> known;
  Truth& truth = known[{model.tree.radices(), model.element_count, model.total_steps, model.seed,
                        model.ballast_bytes}];
  if (!truth.state.empty()) return truth;
  std::vector<float> state = model.initial_state();
  truth.values.push_back(state);
  truth.state.push_back(block_digest_of(model.bytes_of_state(state).view));
  truth.result.emplace_back();
  truth.running.emplace_back();
  for (std::uint64_t step = 1; step <= model.total_steps; ++step) {
    const auto result = model.node_sum(truth.state.back(), step, model.tree.root(), 0);
    JobModel::apply(state, step, *result);
    truth.values.push_back(state);
    truth.state.push_back(block_digest_of(model.bytes_of_state(state).view));
    truth.result.push_back(digest_of(bytes_of(std::span<const float>(*result))));
    collective::DataFingerprint running = truth.running.back();
    running += model.node_fed(step, model.tree.root());
    truth.running.push_back(running);
  }
  return truth;
}

}  // namespace gpunode::sim
