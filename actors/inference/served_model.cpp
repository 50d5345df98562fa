#include "actors/inference/served_model.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "actors/inference/stop_sequences.hpp"
#include "kernels/model/model_code.hpp"
#include "kernels/model/token_sampler.hpp"
#include "kernels/ops/lane.hpp"
#include "runtime/dataset/table_dataset.hpp"
#include "runtime/tokenizer/text_stream.hpp"

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

// What a text of nothing goes on from: where another one ended, or a new line.
model::Token beginning_of(const tokenizer::Tokenizer& tokenizer,
                          std::span<const model::Token> ends) {
  for (const model::Token end : ends)
    if (!tokenizer.text_of(end).empty()) return end;
  return tokenizer.token_of("\n").value_or(0);
}

std::string digest_of(std::span<const float> weights) {
  return storage::sha256_of(bytes_of(weights)).text();
}

}  // namespace

Result<std::unique_ptr<ServedModel>> ServedModel::load(const Options& options) {
  return model::guarded("the model", [&]() -> Result<std::unique_ptr<ServedModel>> {
    auto loaded = checkpoint::load_stored_model(*options.files, options.path);
    if (!loaded) return loaded.error();
    auto is = describe(*loaded);
    if (!is) return is.error();
    return set_up(options, *std::move(is), loaded->weights);
  });
}

Result<ServedModel::Description> ServedModel::describe(checkpoint::StoredModel& stored) {
  Description is{.model = std::move(stored.model), .facts = {}, .tokenizer = {}, .ends = {}};
  is.facts = {digest_of(stored.weights), stored.step, is.model->name()};
  if (features_of(*is.model) > 0) return is;
  const std::size_t vocabulary = is.model->vocabulary();
  if (!stored.text.tokenizer.empty()) {
    auto tokenizer = tokenizer::Tokenizer::parse(stored.text.tokenizer);
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
  if (!stored.text.tokenizer.empty() && is.tokenizer->vocabulary() > vocabulary)
    return Error{ErrorCode::invalid_argument, "its tokenizer.json has tokens up to " +
                                                  std::to_string(is.tokenizer->vocabulary() - 1) +
                                                  ", the model only " + std::to_string(vocabulary) +
                                                  ": they are not of the same model"};
  is.ends = std::move(stored.text.ends);
  return is;
}

Result<std::unique_ptr<ServedModel>> ServedModel::set_up(const Options& options, Description is,
                                                         std::span<const float> weights) {
  std::unique_ptr<ServedModel> served(new ServedModel(options));
  served->is_ = std::move(is);
  const model::Model& model = *served->is_.model;
  auto placed = served->use_.run([&] { return served->place(model, weights, options.workers); });
  if (!placed) return placed.error();
  served->features_ = features_of(model);
  // Ready means that a probe was answered.
  if (auto done = served->probe(); !done) return done.error().within("probe of the loaded model");
  return served;
}

Result<std::unique_ptr<ServedModel>> ServedModel::move(ServedModel& from, const Options& options) {
  Error of_files{ErrorCode::corrupted, "its files hold other weights now"};
  {
    auto loaded = load(options);
    if (loaded && (*loaded)->facts().digest == from.facts().digest) return loaded;
    if (!loaded) of_files = loaded.error();
  }
  // That device would not have them from elsewhere either.
  if (of_files.code == ErrorCode::out_of_memory || of_files.code == ErrorCode::device_lost)
    return of_files;
  return model::guarded("the model", [&]() -> Result<std::unique_ptr<ServedModel>> {
    const auto weights = from.use_.run([&] { return from.read_back(); });
    if (!weights) return weights.error().within(of_files.message());
    return set_up(options, from.is_, *weights);
  });
}

Result<std::vector<float>> ServedModel::read_back() {
  ops::Backend& backend = use_.device().backend();
  tensor::BufferPool pool(backend.memory(), backend.capabilities().memory_bytes);
  auto lane = ops::Lane::open(backend, pool);
  if (!lane) return lane.error();
  std::vector<float> weights(is_.model->parameter_count());
  auto read = lane->download(weights_.data(), std::as_writable_bytes(std::span(weights)));
  if (!read) return read.error();
  if (digest_of(weights) != is_.facts.digest)
    return Error{ErrorCode::corrupted, "the memory of " + use_.device().id() +
                                           " does not hold the weights that were loaded to it"};
  return weights;
}

Result<void> ServedModel::place(const model::Model& model, std::span<const float> weights,
                                int workers) {
  ops::Backend& backend = use_.device().backend();
  auto program = model::make_program(model, backend, workers);
  if (!program) return program.error();
  program_ = std::move(*program);
  tensor::BufferPool pool(backend.memory(), backend.capabilities().memory_bytes);
  auto lane = ops::Lane::open(backend, pool);
  if (!lane) return lane.error();
  auto placed = ops::place(*lane, pool, weights);
  if (!placed) return placed.error().within("weights of the model");
  weights_ = *std::move(placed);
  return program_->load({weights_.as<const float>(), weights.size()});
}

Result<void> ServedModel::probe() {
  if (features_ > 0) {
    const auto told = use_.run([&] { return class_of(std::vector<float>(features_)); });
    return told ? Result<void>() : told.error();
  }
  const auto told = generate({.prompt = "\n", .max_tokens = 1, .temperature = 0}, Time::max());
  return told ? Result<void>() : told.error();
}

Result<GenerateAnswer> ServedModel::generate(const GenerateRequest& request, Time deadline,
                                             const Give& give) {
  if (device().condition() == compute::DeviceCondition::lost)
    return Error{ErrorCode::device_lost,
                 "the device " + device().id() + " is lost: " + device().status().reason};
  const auto work = [&]() -> Result<GenerateAnswer> {
    Time begin = clock_->now();
    if (begin >= deadline)
      return Error{ErrorCode::timeout, "the deadline passed while the request waited"};
    GenerateAnswer answer{.text = {},
                          .tokens = 0,
                          .finish = "length",
                          .model_digest = is_.facts.digest,
                          .step = is_.facts.step,
                          .seconds = 0};
    const auto done = features_ > 0 ? tell_classes(request, deadline, answer)
                                    : continue_text(request, deadline, give, answer);
    if (!done) return done.error();
    answer.seconds = std::chrono::duration<double>(clock_->now() - begin).count();
    return answer;
  };
  return use_.run([&] { return model::guarded("the model", work); });
}

Result<void> ServedModel::continue_text(const GenerateRequest& request, Time deadline,
                                        const Give& give, GenerateAnswer& answer) {
  auto session = model::make_session(*program_);
  if (!session) return session.error();
  model::Generator generator(std::move(*session), is_.model->vocabulary(),
                             {.temperature = request.temperature,
                              .top_k = static_cast<int>(request.top_k),
                              .top_p = request.top_p,
                              .min_p = request.min_p,
                              .presence_penalty = request.presence_penalty,
                              .frequency_penalty = request.frequency_penalty,
                              .repetition_penalty = request.repetition_penalty,
                              .seed = request.seed});
  auto prompt = is_.tokenizer->encode(request.prompt);
  if (!prompt) return prompt.error().within("prompt");
  if (prompt->empty()) prompt->push_back(beginning_of(*is_.tokenizer, is_.ends));
  if (auto read = generator.prompt(*prompt); !read) return read.error();
  answer.prompt_tokens = static_cast<std::uint32_t>(prompt->size());
  tokenizer::TextStream stream(is_.tokenizer);
  if (auto behind = stream.go_on_from(*prompt); !behind) return behind.error().within("prompt");
  StopSequences stop(request.stop);
  while (answer.tokens < request.max_tokens && !stop.is_over()) {
    if (clock_->now() >= deadline) {
      answer.finish = "deadline";
      break;
    }
    use_.got_on();
    const auto token = generator.next();
    if (!token) return token.error();
    ++answer.tokens;
    if (std::ranges::find(is_.ends, *token) != is_.ends.end()) {
      answer.finish = "stop";
      break;
    }
    const auto more = stream.add(*token);
    if (!more) return more.error();
    const std::string sure = stop.add(*more);
    answer.text += sure;
    if (give && !give(sure)) return {ErrorCode::cancelled, "who asked for the text is gone"};
  }
  const auto rest = stream.end();
  if (!rest) return rest.error();
  answer.text += stop.add(*rest) + stop.end();
  if (stop.is_over()) answer.finish = "stop";
  return {};
}

Result<void> ServedModel::tell_classes(const GenerateRequest& request, Time deadline,
                                       GenerateAnswer& answer) {
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
    answer.text += std::to_string(*told) + "\n";
    ++answer.tokens;
  }
  if (answer.tokens == 0 && answer.finish == "stop")
    return Error{ErrorCode::invalid_argument,
                 "the model tells classes of rows, and there is none: give a line of " +
                     std::to_string(features_) +
                     " numbers for each, separated by commas, by --prompt or --prompt-file"};
  return {};
}

Result<std::size_t> ServedModel::class_of(std::span<const float> features) {
  std::vector<std::uint8_t> bytes(is_.model->sample_bytes());  // the label is 0
  std::memcpy(bytes.data(), features.data(), features.size_bytes());
  std::vector<float> scores(is_.model->vocabulary());
  if (auto done = program_->scores(0, {0, bytes}, scores); !done) return done.error();
  if (!std::ranges::all_of(scores, [](float score) { return std::isfinite(score); }))
    return Error{
        ErrorCode::internal,
        "the model's scores are no finite numbers: its training has gone wrong, or the row "
        "is far outside what it was trained on"};
  return static_cast<std::size_t>(std::ranges::max_element(scores) - scores.begin());
}

}  // namespace gpunode::inference
