#include "actors/inference/served_model.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

#include "actors/inference/detail/device_weights.hpp"
#include "kernels/model/model_code.hpp"
#include "kernels/ops/lane.hpp"
#include "runtime/base/log.hpp"

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

// As it lies in the model's folder; empty: it is over bytes.
std::string_view tokenizer_text(const checkpoint::WeightImage& image) {
  for (const checkpoint::TextFile& text : *image.texts)
    if (text.name == "tokenizer.json") return text.bytes;
  return {};
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
                     : checkpoint::load_weight_image(
                           *options.files, options.path,
                           {.format = options.weights, .room = room, .part = options.part});
    if (!image) return image.error();
    auto is = describe(*std::move(image));
    if (!is) return is.error();
    MakeDraft draft;
    if (!options.draft.empty()) draft = [&] { return load(options_of_draft(options)); };
    return set_up(options, *std::move(is), std::move(weights), draft);
  });
}

ServedModel::Options ServedModel::options_of_draft(const Options& options) {
  Options of{options};
  of.user += "'s draft";
  of.path = std::exchange(of.draft, {});
  of.weights.reset();
  of.take = {};
  of.part.reset();
  of.is_draft = true;
  return of;
}

Result<void> ServedModel::take_draft(const MakeDraft& make) {
  if (!make) return {};
  const auto refused = [](std::string text) {
    return Error{ErrorCode::invalid_argument, std::move(text)};
  };
  if (!continues_texts())
    return refused("a draft guesses how texts go on: the model continues none");
  auto draft = make();
  if (!draft) return draft.error().within("the draft");
  const Description& its = (*draft)->is_;
  if (!(*draft)->continues_texts())
    return refused("the draft, " + its.facts.description + ", continues no texts");
  if (its.model().vocabulary() != is_.model().vocabulary() ||
      tokenizer_text(*its.image) != tokenizer_text(*is_.image))
    return refused("the draft has other tokens than the model (" +
                   std::to_string(its.model().vocabulary()) + " and " +
                   std::to_string(is_.model().vocabulary()) +
                   "): a draft is a smaller model with the very same tokenizer.json, or both are "
                   "over bytes");
  is_.facts.draft = its.facts.digest;
  draft_ = *std::move(draft);
  return {};
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
                                                         tensor::Buffer image,
                                                         const MakeDraft& draft) {
  std::unique_ptr<ServedModel> served(new ServedModel(options));
  served->is_ = std::move(is);
  served->is_.facts.draft.clear();
  const model::Model& model = served->is_.model();
  auto placed = served->use_.run([&] { return served->place(std::move(image), options.workers); });
  if (!placed) return placed.error();
  if (options.is_draft) return served;
  served->features_ = features_of(model);
  const bool tells_rows = served->features_ > 0 || model.representation() > 0;
  if (options.figures)
    served->figures_ =
        options.figures(tells_rows ? ModelFigures::Kind::rows : ModelFigures::Kind::texts);
  if (auto opened = served->open_texts(options, draft); !opened) return opened.error();
  // Ready means that a probe was answered.
  constexpr auto kLookForParts = std::chrono::milliseconds(50);
  auto done = served->probe();
  const auto waits_for_parts = [&] {
    return !done && served->chain_ && done.error().code == ErrorCode::unavailable;
  };
  for (Duration waited{}; waits_for_parts() && waited < options.parts_within;
       waited += kLookForParts) {
    std::this_thread::sleep_for(kLookForParts);
    done = served->probe();
  }
  if (!done && !waits_for_parts()) return done.error().within("probe of the loaded model");
  return served;
}

Result<std::unique_ptr<ServedModel>> ServedModel::move(ServedModel& from, const Options& options) {
  Error of_files{ErrorCode::corrupted, "its files hold other weights now"};
  {
    Options with_all = options;
    with_all.draft_may_lack = false;
    auto loaded = load(with_all);
    if (loaded && (*loaded)->facts().digest == from.facts().digest) {
      (*loaded)->set_version(from.facts().version);
      return loaded;
    }
    if (!loaded) of_files = loaded.error();
  }
  // That device would not have them from elsewhere either.
  const bool needs_less = options.draft_may_lack && !options.draft.empty();
  if ((of_files.code == ErrorCode::out_of_memory && !needs_less) ||
      of_files.code == ErrorCode::device_lost)
    return of_files;
  return model::guarded("the model", [&]() -> Result<std::unique_ptr<ServedModel>> {
    auto weights = from.use_.run([&] { return from.read_back(); });
    if (!weights) return weights.error().within(of_files.message());
    MakeDraft draft;
    if (from.draft_) draft = [&] { return move(*from.draft_, options_of_draft(options)); };
    return set_up(options, from.is_, *std::move(weights), draft);
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
  if (is_.image->part)
    return Error{ErrorCode::unsupported, "of a part of a model nothing is read back"};
  auto weights =
      tensor::BufferPool(tensor::host_memory(), kUnlimitedBytes).take(is_.layout().bytes);
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
  auto placed = on_device(use_.device(), std::move(image), is_.layout().bytes);
  if (!placed) return placed.error();
  weights_ = *std::move(placed);
  if (is_.image->part) return {};  // its decoder takes them
  if (is_.layout().format == ops::WeightFormat::fp32)
    return program_->load({weights_->as<const float>(), is_.model().parameter_count()});
  return program_->load_image(is_.layout().format,
                              {weights_->as<const std::byte>(), is_.layout().bytes});
}

Result<void> ServedModel::probe() {
  if (features_ > 0) {
    const auto told = class_of(std::vector<float>(features_));
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

// With its draft, or, where that may lack and cannot be had, without.
Result<void> ServedModel::open_texts(const Options& options, const MakeDraft& draft) {
  auto opened = take_draft(draft);
  if (opened) opened = open_texts();
  if (opened || !draft || !options.draft_may_lack) return opened;
  log::warning("serving", options.user + " goes on without its draft: " + opened.error().message());
  draft_.reset();
  is_.facts.draft.clear();
  return open_texts();
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
  TextEngine::Options options{.model = &is_.model(),
                              .tokenizer = is_.tokenizer,
                              .ends = is_.image->text.ends,
                              .chat = is_.chat,
                              .clock = clock_,
                              .figures = figures_,
                              .independent_rows = independent_rows_};
  if (draft_) {
    options.draft = &draft_->is_.model();
    options.draft_program = draft_->program_.get();
  }
  if (is_.image->part) {
    options.decoder = [this](const model::DecoderOptions& wanted) {
      return decoder_in_parts(wanted);
    };
    options.pass_until = [this](Time until) {
      if (chain_) chain_->set_until(until);
    };
  }
  auto texts = TextEngine::open(*program_, std::move(options));
  if (!texts) return texts.error();
  texts_ = *std::move(texts);
  return {};
}

Result<std::unique_ptr<model::Decoder>> ServedModel::decoder_in_parts(
    const model::DecoderOptions& wanted) {
  const model::ModelPart& first = *is_.image->part;
  const storage::Sha256 digest = is_.content().digest();
  auto parts = is_.model().parts(is_.layout().format, part_count_);
  if (!parts) return parts.error();
  model::DecoderOptions options = wanted;
  for (const model::ModelPart& part : *parts) {
    options.page_bytes = std::max(options.page_bytes, part.page_bytes);
    if (!part.is_last()) options.rows = std::min(options.rows, kMostPartNumbers / part.gives);
  }
  options.texts =
      std::min({options.texts, options.rows, kMostPartNumbers / is_.model().vocabulary()});
  if (options.texts == 0)
    return Error{ErrorCode::unsupported,
                 is_.facts.description + " is too wide to be divided among nodes"};
  auto part = program_->part(first, {weights_->as<const std::byte>(), is_.layout().bytes}, options);
  if (!part) return part.error();
  if (first.is_last()) return model::decoder_of(*std::move(part), nullptr);
  PartAccess access = access_;
  // A device may wait for other nodes.
  access.ask = [this](const NodeId& node, SharedBytes request, Duration timeout) {
    return use_.apart([&] { return access_.ask(node, std::move(request), timeout); });
  };
  static std::atomic<std::uint64_t> heads{0};
  auto chain =
      std::make_unique<PartChain>(PartChain::Options{.model = name_,
                                                     .digest = digest,
                                                     .parts = *std::move(parts),
                                                     .vocabulary = is_.model().vocabulary(),
                                                     .extents = (*part)->extents(),
                                                     .head = ++heads,
                                                     .access = std::move(access),
                                                     .clock = clock_});
  chain_ = chain.get();
  return model::decoder_of(*std::move(part), std::move(chain));
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
  order.done(tell_classes(order.request, order.deadline));
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

}  // namespace gpunode::inference
