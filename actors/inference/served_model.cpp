#include "actors/inference/served_model.hpp"

#include "actors/checkpoint/stored_model.hpp"
#include "kernels/model/model_code.hpp"
#include "kernels/model/token_sampler.hpp"
#include "kernels/ops/lane.hpp"

namespace gpunode::inference {

Result<std::unique_ptr<ServedModel>> ServedModel::load(const Options& options) {
  return model::guarded("the model", [&]() -> Result<std::unique_ptr<ServedModel>> {
    auto loaded = checkpoint::load_stored_model(*options.files, options.path);
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
