// One model that is served: weights on a device, and texts continued with them, in the tokens of its
// tokenizer.json or, without one, in bytes; or, of an encoder, represented by vectors; or, of a model that
// tells classes, rows of numbers answered. No mailbox; the model actor owns one and calls it from its thread. Its device shows who is served there, may not hang over a text, and can be drained.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/checkpoint/weight_image.hpp"
#include "actors/compute/device_roster.hpp"
#include "actors/inference/model_figures.hpp"
#include "actors/inference/part_chain.hpp"
#include "actors/inference/text_encoder.hpp"
#include "actors/inference/text_engine.hpp"
#include "kernels/model/model.hpp"
#include "kernels/tensor/buffer.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/storage/file_system.hpp"

namespace gpunode::inference {

struct ModelFacts {
  std::string digest;  // of its content (actors/checkpoint/model_content.hpp)
  std::uint64_t step = 0;
  std::string description;    // of the model, by itself
  std::string weights;        // the format that they are kept in
  std::uint64_t version = 0;  // under its name, among those of the cluster; 0: not told yet
  std::string draft = {};     // the digest of the one that guesses for it; empty: none
};

// What others take of a model to serve it too. Its owner keeps the memory for as long as somebody reads it.
struct ModelBytes {
  std::shared_ptr<const checkpoint::WeightImage> is;
  SharedBytes image;  // empty: it is in a device's memory, which the model's thread alone reads
  const checkpoint::ModelContent& content() const { return *is->content; }
};

class ServedModel {
 public:
  struct Options {
    compute::NodeDevice* device = nullptr;  // outlives the model
    std::string user = "a model";           // as the device's users are listed
    const storage::FileSystem* files = nullptr;
    const Clock* clock = nullptr;
    storage::Path path;  // of a stored model (actors/checkpoint), or a folder of quantised weights
    int workers = 1;
    std::optional<ops::WeightFormat> weights = {};  // absent: as the folder has them, else fp32
    // Texts to the bit as if each were alone on a device with memory of its own too; the host's always are.
    bool independent_rows = false;
    // Of a smaller model with the same tokenizer, which guesses for it on the same device
    // (text_draft.hpp), with the weights that its folder has; empty: none.
    storage::Path draft = {};
    bool draft_may_lack = false;  // one that cannot be had is left out, and the log says why
    bool is_draft = false;        // of another: it has no texts of its own
    // Stands for the path: where the weights are taken from.
    using Room = std::function<Result<MutableByteView>(std::size_t bytes)>;
    std::function<Result<checkpoint::WeightImage>(const Room& room)> take = {};
    // Of what it does, and where that is told; empty: nowhere.
    std::function<std::shared_ptr<ModelFigures>(ModelFigures::Kind)> figures = {};
    std::function<void()> computed = {};  // is told of each pass, row and vector; quick
    // Of a model in parts the one that is loaded; of the head, which is the first, also how it reaches the
    // others, and the model's name.
    std::optional<checkpoint::PartChoice> part = {};
    PartAccess parts = {};
    std::string name = {};
    Duration parts_within = {};  // so long the first probe waits for parts that are not there yet
  };
  // Loads and checks every byte, then answers a probe; of a head whose other parts are not all there yet
  // calls are refused until they are. Fails with: what load_weight_image() fails with;
  // unsupported (a model of neither texts nor rows), out_of_memory; of a draft: the same, and
  // invalid_argument (it has not the same tokens, or one of both continues no texts).
  static Result<std::unique_ptr<ServedModel>> load(const Options& options);

  // The same model, and its draft, on the device that `options` name: from its files, or, where those are
  // gone or hold other weights by now, with the weights read back from where it is, which must still have
  // the digest that they were loaded with. `from` stays as it is. Needs the weights' size of host memory
  // meanwhile, as load() does to a device that has its own. Fails with: what load() fails with; device_lost.
  static Result<std::unique_ptr<ServedModel>> move(ServedModel& from, const Options& options);

  const ModelFacts& facts() const { return is_.facts; }
  void set_version(std::uint64_t version) { is_.facts.version = version; }
  const compute::NodeDevice& device() const { return use_.device(); }
  ModelBytes bytes() const;
  // One of the image's pieces, wherever that is. Fails with: invalid_argument (there is no such piece),
  // device_lost.
  Result<SharedBytes> image_piece(std::size_t piece);

  // Continues the prompt, together with the others that are under way; or tells, a line each and at
  // once, the classes of the prompt's rows, of which a line each has the features as a table has them,
  // after a header if there is one. The order is answered as TextEngine answers it; also by:
  // device_lost; invalid_argument (a line that is no row, or no row at all).
  void begin(TextOrder order);
  // Of one that reads rows: how many numbers each has, 0 of one that reads texts; how many classes are
  // told; and the scores of rows (n, features) into (n, classes). Fails with: device_lost, internal.
  std::size_t row_features() const { return features_; }
  std::size_t row_classes() const { return is_.model().vocabulary(); }
  Result<void> score_rows(std::span<const float> rows, std::span<float> scores);
  // Of an encoder; null: it is none. What it does is counted as the device's by represent().
  const TextEncoder* encoder() const { return encoder_.get(); }
  // Fails with: what TextEncoder::represent fails with; unsupported (no encoder), device_lost.
  Result<TextVector> represent(std::string_view text);
  Result<TextVector> represent(std::span<const model::Token> tokens);
  bool is_idle() const { return !texts_ || texts_->is_idle(); }
  const std::shared_ptr<ModelFigures>& figures() const { return figures_; }  // null: it has none
  const TextEngine* texts() const { return texts_.get(); }  // null: the model reads rows
  // Makes a step with all texts. Fails with what those that were read were answered by: device_lost and
  // the like.
  Result<void> pass();
  // Computes a token, a row or a vector, of nobody; where texts are under way, a pass of these. Fails with:
  // device_lost, internal (its scores are no finite numbers), and what else answering fails with.
  Result<void> probe();
  // One alone, to its end.
  Result<GenerateAnswer> generate(const GenerateRequest& request, Time deadline,
                                  const GivePiece& give = {});

 private:
  explicit ServedModel(const Options& options)
      : use_(*options.device, options.user),
        clock_(options.clock),
        independent_rows_(options.independent_rows),
        computed_(options.computed ? options.computed : [] {}),
        access_(options.parts),
        name_(options.name),
        part_count_(options.part ? options.part->of : 1) {}
  // What it is, wherever its weights are.
  struct Description {
    std::shared_ptr<const checkpoint::WeightImage> image;  // without the tokenizer's text
    ModelFacts facts;
    std::shared_ptr<const tokenizer::Tokenizer> tokenizer;  // null: the model reads rows
    std::shared_ptr<const ChatForm> chat;
    const model::Model& model() const { return *image->model; }
    const model::WeightLayout& layout() const { return image->layout; }
    const checkpoint::ModelContent& content() const { return *image->content; }
  };
  static Result<Description> describe(checkpoint::WeightImage image);
  using MakeDraft = std::function<Result<std::unique_ptr<ServedModel>>()>;
  // `image`: the weights, in host memory; kept where that is the device's. `draft`: empty where none is
  // asked for.
  static Result<std::unique_ptr<ServedModel>> set_up(const Options& options, Description is,
                                                     tensor::Buffer image, const MakeDraft& draft);
  static Options options_of_draft(const Options& options);
  Result<void> take_draft(const MakeDraft& make);
  Result<void> open_texts(const Options& options, const MakeDraft& draft);
  bool continues_texts() const { return is_.tokenizer && is_.model().representation() == 0; }
  Result<tensor::Buffer> read_back();
  Result<void> download(std::uint64_t first, MutableByteView to);
  Result<void> place(tensor::Buffer image, int workers);
  Result<void> open_texts();
  Result<std::unique_ptr<model::Decoder>> decoder_in_parts(const model::DecoderOptions& wanted);
  Result<GenerateAnswer> tell_classes(const GenerateRequest& request, Time deadline);
  template <class Represent>
  Result<TextVector> represented(Represent represent);
  Result<std::size_t> class_of(std::span<const float> features);

  compute::DeviceUse use_;
  const Clock* clock_;
  const bool independent_rows_;
  const std::function<void()> computed_;
  std::shared_ptr<ModelFigures> figures_;
  std::mutex scoring_;                             // the desk's askers and the model's thread do
  PartAccess access_;                              // of a head
  std::string name_;                               // the same
  std::size_t part_count_ = 1;                     // the same
  PartChain* chain_ = nullptr;                     // the same; its texts' decoder has it
  Description is_;                                 // shared with what it moved from
  std::shared_ptr<const tensor::Buffer> weights_;  // in the device's memory
  std::unique_ptr<model::Program> program_;
  std::unique_ptr<ServedModel> draft_;    // without texts of its own
  std::size_t features_ = 0;              // of a row; 0: the model reads texts
  std::unique_ptr<TextEngine> texts_;     // null: the model reads rows, or
  std::unique_ptr<TextEncoder> encoder_;  // represents texts
};

}  // namespace gpunode::inference
