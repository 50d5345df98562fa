#include "actors/inference/served_model.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/model/model_code.hpp"
#include "kernels/ops/lane.hpp"
#include "runtime/dataset/table_dataset.hpp"

namespace gpunode::inference {
namespace {

// Of a model that reads rows of a table; 0 of any other.
std::size_t features_of(const model::Model& model) {
  const std::vector<SampleField> fields = model.sample_fields();
  const bool reads_rows =
      fields.size() == 2 && fields[0].name == "features" && fields[0].dtype == SampleDtype::f32 &&
      fields[1] == SampleField{"label", SampleDtype::i32, 1} && model.tokens_per_sample() == 1;
  return reads_rows ? fields[0].count : 0;
}

constexpr std::uint64_t kUnlimited = std::uint64_t{1} << 62;

// Host memory for weights: the device's own where that is the CPU.
Result<tensor::Buffer> host_room(const compute::NodeDevice& device, std::size_t bytes) {
  ops::Backend& backend = device.backend();
  const bool is_the_devices = backend.capabilities().host_accessible;
  tensor::BufferPool pool(is_the_devices ? backend.memory() : tensor::host_memory(),
                          is_the_devices ? backend.capabilities().memory_bytes : kUnlimited);
  auto room = pool.take(bytes);
  if (!room) return room.error().within("weights of the model");
  tensor::expect_filled(*room);
  return room;
}

MutableByteView bytes_in(tensor::Buffer& buffer, std::size_t bytes) {
  return {buffer.as<std::byte>(), bytes};
}

}  // namespace

Result<std::unique_ptr<ServedModel>> ServedModel::load(const Options& options) {
  return model::guarded("the model", [&]() -> Result<std::unique_ptr<ServedModel>> {
    tensor::Buffer weights;
    const Options::Room room = [&](std::size_t bytes) -> Result<MutableByteView> {
      auto taken = host_room(*options.device, bytes);
      if (!taken) return taken.error();
      weights = *std::move(taken);
      return bytes_in(weights, bytes);
    };
    auto image = options.take
                     ? options.take(room)
                     : checkpoint::load_weight_image(*options.files, options.path,
                                                     {.format = options.weights, .room = room});
    if (!image) return image.error();
    auto is = describe(*std::move(image));
    if (!is) return is.error();
    return set_up(options, *std::move(is), std::move(weights));
  });
}

Result<ServedModel::Description> ServedModel::describe(checkpoint::WeightImage image) {
  const std::string tokenizer_text = std::exchange(image.text.tokenizer, {});
  Description is{.image = std::make_shared<const checkpoint::WeightImage>(std::move(image)),
                 .facts = {},
                 .tokenizer = {},
                 .chat = {}};
  is.chat = std::make_shared<ChatForm>(is.image->text);
  is.facts = {is.content().digest().text(), is.content().step, is.model().name(),
              std::string(to_string(is.layout().format))};
  if (features_of(is.model()) > 0) return is;
  const std::size_t vocabulary = is.model().vocabulary();
  if (!tokenizer_text.empty()) {
    auto tokenizer = tokenizer::Tokenizer::parse(tokenizer_text);
    if (!tokenizer) return tokenizer.error();
    is.tokenizer = *std::move(tokenizer);
  } else if (vocabulary <= 256) {
    is.tokenizer = tokenizer::Tokenizer::of_bytes();
  } else {
    return Error{ErrorCode::unsupported,
                 "the model has " + std::to_string(vocabulary) +
                     " tokens, and nothing says which texts they are: serve a folder of "
                     "transformers that has a tokenizer.json, or a model over bytes"};
  }
  if (!tokenizer_text.empty() && is.tokenizer->vocabulary() > vocabulary)
    return Error{ErrorCode::invalid_argument, "its tokenizer.json has tokens up to " +
                                                  std::to_string(is.tokenizer->vocabulary() - 1) +
                                                  ", the model only " + std::to_string(vocabulary) +
                                                  ": they are not of the same model"};
  return is;
}

Result<std::unique_ptr<ServedModel>> ServedModel::set_up(const Options& options, Description is,
                                                         tensor::Buffer image) {
  std::unique_ptr<ServedModel> served(new ServedModel(options));
  served->is_ = std::move(is);
  const model::Model& model = served->is_.model();
  auto placed = served->use_.run([&] { return served->place(std::move(image), options.workers); });
  if (!placed) return placed.error();
  served->features_ = features_of(model);
  const bool tells_rows = served->features_ > 0 || model.representation() > 0;
  if (options.figures)
    served->figures_ =
        options.figures(tells_rows ? ModelFigures::Kind::rows : ModelFigures::Kind::texts);
  if (auto opened = served->open_texts(); !opened) return opened.error();
  // Ready means that a probe was answered.
  if (auto done = served->probe(); !done) return done.error().within("probe of the loaded model");
  return served;
}

Result<std::unique_ptr<ServedModel>> ServedModel::move(ServedModel& from, const Options& options) {
  Error of_files{ErrorCode::corrupted, "its files hold other weights now"};
  {
    auto loaded = load(options);
    if (loaded && (*loaded)->facts().digest == from.facts().digest) {
      (*loaded)->set_version(from.facts().version);
      return loaded;
    }
    if (!loaded) of_files = loaded.error();
  }
  // That device would not have them from elsewhere either.
  if (of_files.code == ErrorCode::out_of_memory || of_files.code == ErrorCode::device_lost)
    return of_files;
  return model::guarded("the model", [&]() -> Result<std::unique_ptr<ServedModel>> {
    auto weights = from.use_.run([&] { return from.read_back(); });
    if (!weights) return weights.error().within(of_files.message());
    return set_up(options, from.is_, *std::move(weights));
  });
}

Result<void> ServedModel::download(std::uint64_t first, MutableByteView to) {
  ops::Backend& backend = use_.device().backend();
  tensor::BufferPool pool(backend.memory(), backend.capabilities().memory_bytes);
  auto lane = ops::Lane::open(backend, pool);
  if (!lane) return lane.error();
  return lane->download(weights_->as<const std::byte>() + first, to);
}

Result<tensor::Buffer> ServedModel::read_back() {
  auto weights = tensor::BufferPool(tensor::host_memory(), kUnlimited).take(is_.layout().bytes);
  if (!weights) return weights;
  const MutableByteView bytes = bytes_in(*weights, is_.layout().bytes);
  if (auto read = download(0, bytes); !read) return read.error();
  checkpoint::ModelContent there;
  checkpoint::describe_bytes(there, {}, bytes);
  if (there.image_digest() != is_.content().image_digest())
    return Error{ErrorCode::corrupted, "the memory of " + use_.device().id() +
                                           " does not hold the weights that were loaded to it"};
  return weights;
}

ModelBytes ServedModel::bytes() const {
  ModelBytes bytes{is_.image, {}};
  if (use_.device().backend().capabilities().host_accessible)
    bytes.image = {weights_, {weights_->as<const std::byte>(), is_.layout().bytes}};
  return bytes;
}

Result<SharedBytes> ServedModel::image_piece(std::size_t piece) {
  if (piece >= is_.content().image_pieces())
    return Error{ErrorCode::invalid_argument,
                 "the model has " + std::to_string(is_.content().image_pieces()) + " pieces"};
  Bytes bytes(is_.content().piece_bytes(piece));
  const auto read = use_.run([&] { return download(is_.content().piece_first(piece), bytes); });
  return read ? Result<SharedBytes>(SharedBytes::from(std::move(bytes)))
              : Result<SharedBytes>(read.error());
}

Result<void> ServedModel::place(tensor::Buffer image, int workers) {
  ops::Backend& backend = use_.device().backend();
  auto program = model::make_program(is_.model(), backend, workers);
  if (!program) return program.error();
  program_ = std::move(*program);
  if (backend.capabilities().host_accessible) {
    weights_ = std::make_shared<const tensor::Buffer>(std::move(image));
  } else {
    tensor::BufferPool pool(backend.memory(), backend.capabilities().memory_bytes);
    auto lane = ops::Lane::open(backend, pool);
    if (!lane) return lane.error();
    auto placed = ops::place(
        *lane, pool, std::span(image.as<const float>(), is_.layout().bytes / sizeof(float)));
    if (!placed) return placed.error().within("weights of the model");
    weights_ = std::make_shared<const tensor::Buffer>(*std::move(placed));
  }
  if (is_.layout().format == ops::WeightFormat::fp32)
    return program_->load({weights_->as<const float>(), is_.model().parameter_count()});
  return program_->load_image(is_.layout().format,
                              {weights_->as<const std::byte>(), is_.layout().bytes});
}

Result<void> ServedModel::probe() {
  if (features_ > 0) {
    const auto told = use_.run([&] { return class_of(std::vector<float>(features_)); });
    return told ? Result<void>() : told.error();
  }
  if (encoder_) {
    const auto told = represent("\n.");
    return told ? Result<void>() : told.error();
  }
  if (!is_idle()) return pass();
  std::optional<Result<GenerateAnswer>> told;
  begin({.request = {.prompt = "\n", .max_tokens = 1, .temperature = 0, .likely = 0},
         .deadline = Time::max(),
         .client = {},
         .done = [&](Result<GenerateAnswer> answer) { told = std::move(answer); },
         .is_probe = true});
  while (!told)
    if (auto done = pass(); !done) return done;
  if (!*told) return told->error();
  const auto& reports = (*told)->reports;
  if (!reports.empty() && !reports.front().token.log_probability)
    return {ErrorCode::internal,
            "the model's scores are no finite numbers: its training has gone wrong"};
  return {};
}

Result<void> ServedModel::open_texts() {
  if (features_ > 0) return {};
  if (is_.model().representation() > 0) {
    auto encoder = TextEncoder::open(
        *program_,
        {.model = &is_.model(), .tokenizer = is_.tokenizer, .pooling = is_.image->text.pooling});
    if (!encoder) return encoder.error();
    encoder_ = *std::move(encoder);
    return {};
  }
  auto texts = TextEngine::open(*program_, {.model = &is_.model(),
                                            .tokenizer = is_.tokenizer,
                                            .ends = is_.image->text.ends,
                                            .chat = is_.chat,
                                            .clock = clock_,
                                            .figures = figures_});
  if (!texts) return texts.error();
  texts_ = *std::move(texts);
  return {};
}

void ServedModel::begin(TextOrder order) {
  if (device().condition() == compute::DeviceCondition::lost)
    return order.done(Error{ErrorCode::device_lost, "the device " + device().id() +
                                                        " is lost: " + device().status().reason});
  order.done = [facts = is_.facts, done = std::move(order.done)](Result<GenerateAnswer> answer) {
    if (answer) {
      answer->model_digest = facts.digest;
      answer->step = facts.step;
      answer->version = facts.version;
    }
    done(std::move(answer));
  };
  if (texts_) return texts_->begin(std::move(order));
  if (encoder_)
    return order.done(Error{ErrorCode::unsupported,
                            is_.facts.description + " represents texts and continues none: ask for "
                                                    "embeddings"});
  order.done(use_.run([&] {
    return model::guarded("the model", [&] { return tell_classes(order.request, order.deadline); });
  }));
}

Result<TextVector> ServedModel::represent(std::string_view text) {
  return represented([&] { return encoder_->represent(text); });
}

Result<TextVector> ServedModel::represent(std::span<const model::Token> tokens) {
  return represented([&] { return encoder_->represent(tokens); });
}

template <class Represent>
Result<TextVector> ServedModel::represented(Represent represent) {
  if (!encoder_)
    return Error{ErrorCode::unsupported,
                 is_.facts.description + " represents no texts: serve an encoder, as BERT is one"};
  if (device().condition() == compute::DeviceCondition::lost)
    return Error{ErrorCode::device_lost,
                 "the device " + device().id() + " is lost: " + device().status().reason};
  auto made = use_.run([&] {
    use_.got_on();
    return model::guarded("the model", represent);
  });
  if (made) computed_();
  return made;
}

Result<void> ServedModel::pass() {
  auto done = use_.run([&] {
    use_.got_on();
    return texts_->pass();
  });
  if (done) computed_();
  return done;
}

Result<GenerateAnswer> ServedModel::generate(const GenerateRequest& request, Time deadline,
                                             const GivePiece& give) {
  std::optional<Result<GenerateAnswer>> told;
  begin({.request = request,
         .deadline = deadline,
         .client = {},
         .give = give,
         .done = [&](Result<GenerateAnswer> answer) { told = std::move(answer); }});
  while (!told) static_cast<void>(pass());  // those whom it concerns are told of a failure
  return *std::move(told);
}

Result<GenerateAnswer> ServedModel::tell_classes(const GenerateRequest& request, Time deadline) {
  const Time begin = clock_->now();
  if (begin >= deadline)
    return Error{ErrorCode::timeout, "the deadline passed while the request waited"};
  GenerateAnswer answer;
  std::string_view left = request.prompt;
  std::size_t number = 0;
  answer.finish = "stop";
  while (!left.empty()) {  // as many answers as rows, whatever a text's length may be
    ++number;
    if (clock_->now() >= deadline) {
      answer.finish = "deadline";
      break;
    }
    const std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(left.size(), line.size() + 1));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (number == 1 && dataset::is_header(line)) continue;
    const auto features = dataset::features_of(line, features_);
    if (!features) return features.error().within("row " + std::to_string(number));
    use_.got_on();
    const auto told = class_of(*features);
    if (!told) return told.error().within("row " + std::to_string(number));
    computed_();
    answer.text += std::to_string(*told) + "\n";
    ++answer.tokens;
  }
  if (answer.tokens == 0 && answer.finish == "stop")
    return Error{ErrorCode::invalid_argument,
                 "the model tells classes of rows, and there is none: give a line of " +
                     std::to_string(features_) +
                     " numbers for each, separated by commas, by --prompt or --prompt-file"};
  answer.seconds = std::chrono::duration<double>(clock_->now() - begin).count();
  return answer;
}

Result<std::size_t> ServedModel::class_of(std::span<const float> features) {
  std::vector<std::uint8_t> bytes(is_.model().sample_bytes());  // the label is 0
  std::memcpy(bytes.data(), features.data(), features.size_bytes());
  std::vector<float> scores(is_.model().vocabulary());
  if (auto done = program_->scores(0, {0, bytes}, scores); !done) return done.error();
  if (!std::ranges::all_of(scores, [](float score) { return std::isfinite(score); }))
    return Error{
        ErrorCode::internal,
        "the model's scores are no finite numbers: its training has gone wrong, or the row "
        "is far outside what it was trained on"};
  return static_cast<std::size_t>(std::ranges::max_element(scores) - scores.begin());
}

}  // namespace gpunode::inference
