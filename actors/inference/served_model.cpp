#include "actors/inference/served_model.hpp"

#include "actors/named_tensors.hpp"
#include "kernels/model/model_code.hpp"
#include "kernels/model/registry.hpp"
#include "kernels/model/token_sampler.hpp"
#include "kernels/ops/lane.hpp"
#include "runtime/snapshot/checkpoint.hpp"
#include "runtime/snapshot/export.hpp"

namespace gpunode::inference {
namespace {

struct Loaded {
  std::unique_ptr<model::Model> model;
  std::vector<float> weights;
  std::uint64_t step = 0;
};

// The described model, whose weights `read` fills in.
template <class Read>
Result<Loaded> load_weights(const snapshot::ModelDescription& description, std::uint64_t step,
                            Read read) {
  auto model = model::make_model(description.kind, description.settings);
  if (!model) return model.error();
  Loaded loaded{std::move(*model), {}, step};
  loaded.weights.resize(loaded.model->parameter_count());
  Result<void> done = read(named_tensors(*loaded.model, std::span(loaded.weights)));
  if (!done) return done.error();
  return loaded;
}

Result<Loaded> load_checkpoint(const storage::FileSystem& files, const storage::Path& path) {
  auto checkpoint = snapshot::Checkpoint::open(files, path);
  if (!checkpoint) return checkpoint.error();
  const snapshot::CheckpointMeta& meta = checkpoint->manifest().meta;
  return load_weights(meta.model, meta.key.step, [&](const snapshot::StateTarget& target) {
    return checkpoint->read_into(target);
  });
}

Result<Loaded> load_export(const storage::FileSystem& files, const storage::Path& path) {
  auto description = snapshot::read_exported_model(files, path);
  if (!description) return description.error();
  return load_weights(*description, 0, [&](const snapshot::StateTarget& target) {
    return snapshot::load_exported(files, path, target);
  });
}

}  // namespace

Result<std::unique_ptr<ServedModel>> ServedModel::load(const Options& options) {
  return model::guarded("the model", [&]() -> Result<std::unique_ptr<ServedModel>> {
    auto entry = options.files->inspect(options.path);
    if (!entry) return entry.error();
    auto loaded = entry->kind == storage::EntryKind::folder
                      ? load_checkpoint(*options.files, options.path)
                      : load_export(*options.files, options.path);
    if (!loaded) return loaded.error();
    if (loaded->model->vocabulary() > 256)
      return Error{ErrorCode::unsupported,
                   "only models over bytes are served as text; this one has " +
                       std::to_string(loaded->model->vocabulary()) + " tokens"};
    std::unique_ptr<ServedModel> served(new ServedModel(options));
    auto program = model::make_program(*loaded->model, *options.backend, options.workers);
    if (!program) return program.error();
    served->program_ = std::move(*program);
    tensor::BufferPool pool(options.backend->memory(),
                            options.backend->capabilities().memory_bytes);
    auto lane = ops::Lane::open(*options.backend, pool);
    if (!lane) return lane.error();
    auto weights = ops::place(*lane, pool, loaded->weights);
    if (!weights) return weights.error().within("weights of the model");
    served->weights_ = *std::move(weights);
    const std::span placed(served->weights_.as<const float>(), loaded->weights.size());
    if (auto done = served->program_->load(placed); !done) return done.error();
    served->model_ = std::move(loaded->model);
    served->facts_ = {storage::sha256_of(bytes_of(std::span<const float>(loaded->weights))).text(),
                      loaded->step, served->model_->name()};
    // Ready means that a probe was answered.
    auto probe = served->generate({.prompt = "\n", .max_tokens = 1, .temperature = 0}, Time::max());
    if (!probe) return probe.error().within("probe of the loaded model");
    return served;
  });
}

Result<GenerateAnswer> ServedModel::generate(const GenerateRequest& request, Time deadline) {
  return model::guarded("the model", [&]() -> Result<GenerateAnswer> {
    Time begin = clock_->now();
    if (begin >= deadline)
      return Error{ErrorCode::timeout, "the deadline passed while the request waited"};
    auto session = model::make_session(*program_);
    if (!session) return session.error();
    model::Generator generator(std::move(*session), model_->vocabulary(),
                               {.temperature = request.temperature,
                                .top_k = static_cast<int>(request.top_k),
                                .seed = request.seed});
    std::vector<model::Token> prompt;
    for (char c : request.prompt) prompt.push_back(static_cast<unsigned char>(c));
    if (auto read = generator.prompt(prompt); !read) return read.error();
    GenerateAnswer answer{.text = {},
                          .tokens = 0,
                          .finish = "length",
                          .model_digest = facts_.digest,
                          .step = facts_.step,
                          .seconds = 0};
    while (answer.tokens < request.max_tokens) {
      if (clock_->now() >= deadline) {
        answer.finish = "deadline";
        break;
      }
      auto token = generator.next();
      if (!token) return token.error();
      answer.text.push_back(static_cast<char>(*token));
      ++answer.tokens;
    }
    answer.seconds = std::chrono::duration<double>(clock_->now() - begin).count();
    return answer;
  });
}

}  // namespace gpunode::inference
