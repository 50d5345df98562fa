// One model that is served: weights on a device, and texts continued with them, in the tokens of its
// tokenizer.json or, without one, in bytes; or, of a model that tells classes, rows of numbers answered. No mailbox; the model actor owns one and calls it from
// its thread. Its device shows who is served there, may not hang over a text, and can be drained.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/checkpoint/stored_model.hpp"
#include "actors/compute/device_roster.hpp"
#include "actors/inference/text_engine.hpp"
#include "kernels/model/model.hpp"
#include "kernels/tensor/buffer.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/storage/file_system.hpp"

namespace gpunode::inference {

struct ModelFacts {
  std::string digest;  // SHA-256 over the weights' bytes
  std::uint64_t step = 0;
  std::string description;  // of the model, by itself
};

class ServedModel {
 public:
  struct Options {
    compute::NodeDevice* device = nullptr;  // outlives the model
    std::string user = "a model";           // as the device's users are listed
    const storage::FileSystem* files = nullptr;
    const Clock* clock = nullptr;
    storage::Path path;  // a checkpoint's folder, or an exported safetensors file
    int workers = 1;
  };
  // Loads and checks every byte, then answers a probe. Fails with: not_found, corrupted (naming
  // shard and byte range), unsupported (a model of neither texts nor rows), out_of_memory.
  static Result<std::unique_ptr<ServedModel>> load(const Options& options);

  // The same model on the device that `options` name: from its files, or, where those are gone or
  // hold other weights by now, with the weights read back from where it is, which must still have
  // the digest that they were loaded with. `from` stays as it is. Needs 4 bytes a parameter of host
  // memory meanwhile, as load() does. Fails with: what load() fails with; device_lost.
  static Result<std::unique_ptr<ServedModel>> move(ServedModel& from, const Options& options);

  const ModelFacts& facts() const { return is_.facts; }
  const compute::NodeDevice& device() const { return use_.device(); }

  // Continues the prompt, together with the others that are under way; or tells, a line each and at
  // once, the classes of the prompt's rows, of which a line each has the features as a table has them,
  // after a header if there is one. The order is answered as TextEngine answers it; also by:
  // device_lost; invalid_argument (a line that is no row, or no row at all).
  void begin(TextOrder order);
  // Of one that reads rows (row_answers.cpp): how many numbers each has, 0 of one that reads texts; how
  // many classes are told; and a row's scores. Fails with: device_lost, internal.
  std::size_t row_features() const { return features_; }
  std::size_t row_classes() const { return is_.model->vocabulary(); }
  Result<void> score_row(std::span<const float> features, std::span<float> scores);
  bool is_idle() const { return !texts_ || texts_->is_idle(); }
  const TextEngine* texts() const { return texts_.get(); }  // null: the model reads rows
  // Makes a step with all texts.
  void pass();
  // One alone, to its end.
  Result<GenerateAnswer> generate(const GenerateRequest& request, Time deadline,
                                  const GivePiece& give = {});

 private:
  explicit ServedModel(const Options& options)
      : use_(*options.device, options.user), clock_(options.clock) {}
  // What it is, wherever its weights are.
  struct Description {
    std::shared_ptr<const model::Model> model;
    ModelFacts facts;
    std::shared_ptr<const tokenizer::Tokenizer> tokenizer;  // null: the model reads rows
    std::vector<model::Token> ends;                         // behind which a text is over
    std::shared_ptr<const ChatForm> chat;
  };
  static Result<Description> describe(checkpoint::StoredModel& stored);
  static Result<std::unique_ptr<ServedModel>> set_up(const Options& options, Description is,
                                                     std::span<const float> weights);
  Result<std::vector<float>> read_back();
  Result<void> place(const model::Model& model, std::span<const float> weights, int workers);
  Result<void> probe();
  Result<void> open_texts();
  Result<GenerateAnswer> tell_classes(const GenerateRequest& request, Time deadline);
  Result<std::size_t> class_of(std::span<const float> features);

  compute::DeviceUse use_;
  const Clock* clock_;
  Description is_;            // shared with what it moved from
  tensor::Buffer weights_{};  // in the device's memory
  std::unique_ptr<model::Program> program_;
  std::size_t features_ = 0;           // of a row; 0: the model reads texts
  std::unique_ptr<TextEngine> texts_;  // null: the model reads rows
};

}  // namespace gpunode::inference
