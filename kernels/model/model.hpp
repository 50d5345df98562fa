// The interface through which a model joins training and serving; an embedder's own model
// implements the three classes below, GPT (gpt.hpp) is their first user.
//   Model    a pure description: shapes, initial values, sizes. Immutable once shared, any thread.
//   Program  a model made ready on one device. One owner loads weights once a step; then up to
//            `workers` threads compute slices at the same time, one worker each.
//   Session  one text being continued, with its own key/value cache; many at once: decoder.hpp.
// All parameters together are one flat fp32 vector: the concatenation of parameters() in order.
// Gradients and optimizer state have the same layout, so nothing above here knows layers. Parameters
// and gradients are spans of the memory of the backend's device: host memory where that is the CPU
// (Capabilities::host_accessible), else to be touched by the backend's operations alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/ops/weight_format.hpp"
#include "kernels/tensor/shape.hpp"
#include "runtime/base/precision.hpp"
#include "runtime/base/result.hpp"
#include "runtime/base/sample_field.hpp"

namespace gpunode::ops {
class Backend;
}
namespace gpunode::tensor {
class Event;
}

namespace gpunode::model {

class Decoder;
class DecoderPart;
struct DecoderOptions;
struct ModelPart;
class Encoder;
struct WeightLayout;

// Key/value settings of a model, as they stand in a job file and in a checkpoint's manifest.
using Settings = std::map<std::string, std::string>;

using Token = std::int32_t;

enum class ParameterKind : std::uint8_t {
  trained,  // moved by its gradient
  // Measured, as batch normalisation's statistics are. Its elements of a gradient are what the slice
  // measured times the slice's samples; a step moves it by `momentum` of the way to their mean. It
  // is part of state, checkpoint and digest as the weights are, but not of the norm that clipping
  // goes by, does not decay, and its moments stay zero. Buffers come behind all trained ones.
  buffer
};

struct ParameterSpec {
  std::string name;                 // unique in its model, e.g. "blocks.0.attention.weight"
  std::vector<std::int64_t> shape;  // row-major
  bool decay = false;               // weight decay applies (matrices, not biases and norms)
  ParameterKind kind = ParameterKind::trained;
  float momentum = 0;  // of a buffer: 0 to 1

  std::size_t element_count() const {
    std::size_t count = 1;
    for (std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
    return count;
  }
};

// Elements of the flat vector before the first buffer.
std::size_t trained_count(const std::vector<ParameterSpec>& parameters);

// One raw sample: its number in the data source and Model::sample_bytes() bytes.
struct Sample {
  std::uint64_t index = 0;
  std::span<const std::uint8_t> bytes;
};

using tensor::ElementRange;  // of the flat vector

// What stands behind the last element of a gradient, and is summed by the same tree.
struct LossSum {
  float loss = 0;    // summed over predicted tokens
  float weight = 0;  // how many these are: a token or label that counts nothing is left out
};
inline constexpr std::size_t kTailElements = sizeof(LossSum) / sizeof(float);

struct Evaluation {
  double loss = 0;    // summed over predicted tokens
  double weight = 0;  // how many these are
  // Of these the ones whose target has the largest score; absent: the model does not say.
  std::optional<std::uint64_t> correct = {};
};

class Session {
 public:
  virtual ~Session() = default;

  // Tokens read so far, and how many fit in all.
  virtual std::size_t position() const = 0;
  virtual std::size_t capacity() const = 0;
  // Forgets all tokens; the memory stays.
  virtual void reset() = 0;

  // Reads `tokens` and writes the scores of every possible next token (vocabulary values) after
  // the last of them. Thread: one at a time. Fails with: resource_exhausted (more tokens than
  // capacity), invalid_argument (empty, a token outside the vocabulary, wrong size of
  // `logits_out`). After a failure: position unchanged.
  virtual Result<void> append(std::span<const Token> tokens, std::span<float> logits_out) = 0;
};

class Program {
 public:
  virtual ~Program() = default;

  // Takes these weights, and packs or copies them if it likes; they stay as and where they are until
  // the next load. Called once a step, while no worker computes. Fails with: out_of_memory,
  // internal.
  virtual Result<void> load(std::span<const float> parameters) = 0;
  // The same of an image of the model's weight_layout(format), for scores and texts alone. Fails with:
  // as load(); unsupported, as here: its programs know fp32 alone.
  virtual Result<void> load_image(ops::WeightFormat format, ByteView image);
  // The same for these elements of `parameters` only: the others are not read before they are
  // loaded too, and may change until then. Called between stages of forward() too. Fails with:
  // invalid_argument, internal; unsupported where the model has no stages.
  virtual Result<void> load_part(std::span<const float> parameters, ElementRange part);

  // Computes one slice: writes into `gradient_sum` (parameter_count values, overwritten) the
  // gradient of the loss summed over all tokens of `samples`, and returns that sum. The bits
  // depend on weights and samples only, not on worker, threads or earlier calls. Without samples (a
  // job may have more slices than samples) gradient and loss are zero. Thread: the calling one does
  // all the work; different workers may run at the same time. Fails with: invalid_argument (bytes
  // of the wrong length), out_of_memory, internal. After a failure: `gradient_sum` unspecified.
  virtual Result<LossSum> gradient(int worker, std::span<const Sample> samples,
                                   std::span<float> gradient_sum) = 0;

  // What gradient() does, in the model's stages, for whoever sends one part of the gradient while
  // the next is computed, or has the weights of one part before those of the next. A slice under
  // way has a slot, which keeps its activations from forward()'s first stage to backward()'s last;
  // the same bits come out. Not called where the model has no stages. Makes slots 0 .. count-1;
  // called while no worker computes.
  virtual void make_slots(std::size_t count) { static_cast<void>(count); }
  // The model's forward_stages()[stage], every one once, in order, with the same samples. The last
  // returns the loss sum. Thread and failures: as gradient(); a slot is one thread's at a time.
  virtual Result<LossSum> forward(int worker, std::size_t slot, std::size_t stage,
                                  std::span<const Sample> samples);
  // Writes the elements of the model's stages()[stage] into `part`, which is overwritten. After
  // forward(), every stage once, in order. Fails with: invalid_argument, internal.
  virtual Result<void> backward(int worker, std::size_t slot, std::size_t stage,
                                std::span<float> part);
  // forward() and backward() may return before the device has done what they asked for, the loss
  // excepted; the slot's stages keep their order on whichever worker they are asked for. Behind the
  // slot's last one; null where it has been done, as in programs that wait. Thread: the slot's.
  virtual std::shared_ptr<const tensor::Event> reached(std::size_t slot) const {
    return static_cast<void>(slot), nullptr;
  }
  // Waits until all stages that were asked for have been done, so that their memory is the caller's
  // again. Called while no worker computes. Fails with: internal.
  virtual Result<void> settle() { return {}; }

  // The loss summed over all tokens of `samples`, without gradient. As gradient() in all else.
  virtual Result<Evaluation> evaluate(int worker, std::span<const Sample> samples) = 0;

  // The scores of what each sample predicts, one sample behind the other: vocabulary() values for each
  // of its tokens, as evaluation has them but for the last bits; targets do not matter. A sample's bits
  // do not depend on those beside it. As gradient() in all else; unsupported where a program does not
  // tell.
  virtual Result<void> scores(int worker, std::span<const Sample> samples, std::span<float> out);

  // A text to be continued with the weights loaded now; load() leaves it undefined until reset().
  // Fails with: out_of_memory; unsupported for models that do not generate.
  virtual Result<std::unique_ptr<Session>> session() = 0;
  // Many texts at once (decoder.hpp), with the weights loaded now, as above. Null (as here): there is
  // one session for each. Fails with: what session() fails with.
  virtual Result<std::unique_ptr<Decoder>> decoder(const DecoderOptions& options);
  // One part of such a decoder (decoder_part.hpp), with the weights of `image`, which is laid out as the part
  // says and outlives it. Fails with: what decoder() fails with; invalid_argument (an image of another
  // size); unsupported, as here, for models that have no parts.
  virtual Result<std::unique_ptr<DecoderPart>> part(const ModelPart& part, ByteView image,
                                                    const DecoderOptions& options);
  // Texts as vectors (encoder.hpp), with the weights loaded now, as above. Fails with: out_of_memory;
  // unsupported, as here, for models that do not represent texts.
  virtual Result<std::unique_ptr<Encoder>> encoder();
};

class Model {
 public:
  virtual ~Model() = default;

  virtual std::string kind() const = 0;  // the registry's key, e.g. "gpt"
  virtual std::string name() const = 0;  // for people, e.g. "gpt 4x128"
  // All settings, defaults included; make_model(kind(), config()) gives the same model.
  virtual Settings config() const = 0;

  virtual const std::vector<ParameterSpec>& parameters() const = 0;
  virtual std::size_t parameter_count() const = 0;
  // What one raw sample consists of, in this order; the data of a job must have the same.
  virtual std::vector<SampleField> sample_fields() const = 0;
  std::size_t sample_bytes() const { return bytes_of(sample_fields()); }
  virtual std::size_t tokens_per_sample() const = 0;  // predicted tokens, at most
  virtual std::size_t vocabulary() const = 0;         // values of Session's logits

  // Writes the initial weights (parameter_count values): a function of seed and element number.
  virtual void initialise(std::uint64_t seed, std::span<float> parameters) const = 0;

  // Bytes that a program needs with so many workers and samples a slice, weights not included.
  virtual std::uint64_t working_bytes(int workers, std::size_t samples_per_slice) const = 0;
  // The stages of backward, first one first: which elements are final after each. Together all of
  // them, each once. None (as here): its programs know gradient() alone.
  virtual std::vector<ElementRange> stages() const { return {}; }
  // The stages of forward, first one first: the elements that none before it reads. Together all of
  // them, each once, in ascending order. None just where stages() gives none.
  virtual std::vector<ElementRange> forward_stages() const { return {}; }
  // Bytes of a slot of Program::forward; 0 for models without stages.
  virtual std::uint64_t slot_bytes(std::size_t samples_per_slice) const {
    return static_cast<void>(samples_per_slice), 0;
  }
  // Additions and products of a slice's forward and backward, at least; 0 (as here): not known, so
  // that nobody can tell how much of a device training makes use of.
  virtual double slice_flops(std::size_t samples_per_slice) const {
    return static_cast<void>(samples_per_slice), 0;
  }

  // Of the products of all programs made from here on; fp32 unless told. To be called, if at all,
  // before the model is shared. Fails with: unsupported, as here: its programs know fp32 alone.
  virtual Result<void> use_precision(Precision precision);
  virtual Precision precision() const { return Precision::fp32; }

  // Numbers by which it represents a token of a text (Program::encoder); 0: it does not.
  virtual std::size_t representation() const { return 0; }
  // Where the weights lie for Program::load_image. Fails with: unsupported, as here for all but fp32.
  virtual Result<WeightLayout> weight_layout(ops::WeightFormat format) const;

  // As so many parts that continue texts together (decoder_part.hpp), the first one first, cut such that the
  // largest has as few bytes of weights as can be. The same on every machine. Fails with: invalid_argument
  // (it has not so many), unsupported, as here, for models that have no parts.
  virtual Result<std::vector<ModelPart>> parts(ops::WeightFormat format, std::size_t count) const;

  // Makes the model ready on a device. `backend` and this model outlive the program.
  // Fails with: unsupported (an operation the device lacks), out_of_memory.
  virtual Result<std::unique_ptr<Program>> program(ops::Backend& backend, int workers) const = 0;
};

}  // namespace gpunode::model
