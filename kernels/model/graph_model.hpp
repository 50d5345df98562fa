// A model written as a graph: it describes its forward pass with a graph::Builder and how a raw
// sample becomes the graph's inputs; parameters, initial values, gradients, stages, memory and
// sessions follow from that. GPT (gpt.hpp) is one; an embedder's own derives from this too.
#pragma once

#include "kernels/graph/builder.hpp"
#include "kernels/graph/compile.hpp"
#include "kernels/model/model.hpp"

namespace gpunode::model {

// One sample's part of an input of the graph.
struct InputPart {
  std::string_view name;
  graph::Dtype dtype;
  void* data;
  std::size_t count;  // elements

  std::span<std::int32_t> tokens() const { return {static_cast<std::int32_t*>(data), count}; }
  std::span<float> values() const { return {static_cast<float*>(data), count}; }
};

// Evaluation takes samples in groups of this many, so that its memory stays small and its bits do not
// depend on how many a caller passes at once.
inline constexpr std::size_t kEvaluationGroup = 4;

class GraphModel : public Model {
 public:
  // The forward pass, for builder.samples() samples of builder.positions() positions.
  virtual void forward(graph::Builder& builder) const = 0;
  // Positions of a sample, which are also what a session holds.
  virtual std::int64_t context() const = 0;
  // Fills the inputs from one sample of sample_bytes(). Fails with: invalid_argument.
  virtual Result<void> read(const Sample& sample, std::span<const InputPart> inputs) const = 0;
  // The same from a text of as many tokens as the inputs have positions, each in the vocabulary, of a
  // model that represents texts (graph::Builder::represent). Fails with: invalid_argument.
  virtual Result<void> read_text(std::span<const Token> text,
                                 std::span<const InputPart> inputs) const;
  // Whether the model continues texts: its forward pass takes tokens alone and predicts the next.
  virtual bool generates() const { return true; }

  const std::vector<ParameterSpec>& parameters() const final { return parameters_; }
  std::size_t parameter_count() const final { return parameter_count_; }
  void initialise(std::uint64_t seed, std::span<float> parameters) const final;
  std::uint64_t working_bytes(int workers, std::size_t samples_per_slice) const final;
  std::vector<ElementRange> stages() const final { return stages_; }
  std::vector<ElementRange> forward_stages() const final { return forward_stages_; }
  std::uint64_t slot_bytes(std::size_t samples_per_slice) const final;
  Result<void> use_precision(Precision precision) final {
    precision_ = precision;
    return {};
  }
  Precision precision() const final { return precision_; }
  double slice_flops(std::size_t samples_per_slice) const final;
  std::size_t representation() const final { return representation_; }
  Result<WeightLayout> weight_layout(ops::WeightFormat format) const final;
  Result<std::vector<ModelPart>> parts(ops::WeightFormat format, std::size_t count) const final;
  Result<std::unique_ptr<Program>> program(ops::Backend& backend, int workers) const final;

 protected:
  // To be called once the settings are there. Fails with: invalid_argument (what is wrong with the
  // forward pass), unsupported (an operation that has no gradient).
  Result<void> prepare();

 private:
  std::vector<ParameterSpec> parameters_;
  std::vector<graph::Initial> initials_;  // by parameter
  std::size_t parameter_count_ = 0, constant_bytes_ = 0, representation_ = 0;
  std::vector<ElementRange> stages_, forward_stages_;
  Precision precision_ = Precision::fp32;
};

using SharedExecutable = std::shared_ptr<const graph::Executable>;

// The complete graph of a slice; one that is not trained may have its weights in another format, and
// products whose rows are independent (ops::MatmulArgs), in fp32. Fails with: what
// GraphModel::prepare() fails with.
Result<SharedExecutable> compile(const GraphModel& model, graph::Purpose purpose,
                                 std::size_t samples,
                                 ops::WeightFormat weights = ops::WeightFormat::fp32,
                                 bool independent_rows = false);

// x (..., K) -> (..., N) by a weight and, if `with_bias`, a bias of this name.
struct LinearShape {
  std::string name;
  std::int64_t N, K;
  float deviation;
  bool with_bias = true;
};
graph::ValueId linear(graph::Builder& builder, const LinearShape& shape, graph::ValueId x);

}  // namespace gpunode::model
