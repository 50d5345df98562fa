// Trains the model of bigram.hpp by hand and continues a text with it: the calls below are the ones
// that a node's trainer and server make for every model, so a model that passes here can be named
// in a job file after register_model().
#include <kernels/cpu/cpu_backend.hpp>
#include <kernels/model/registry.hpp>
#include <kernels/model/token_sampler.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bigram.hpp"

namespace {

using namespace gpunode;

// The value, or the end of the program with the reason.
template <class T>
T need(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "embed: %s\n", result.error().message().c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

// Cuts a text into samples of the model's length.
std::vector<model::Sample> cut(const std::string& text, std::size_t length) {
  std::vector<model::Sample> samples;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  for (std::size_t at = 0; at + length <= text.size(); at += length)
    samples.push_back({samples.size(), {bytes + at, length}});
  return samples;
}

std::string continue_text(model::Program& program, const std::string& prompt, int count) {
  model::Generator generator(need(program.session()), 256, {.temperature = 0.8, .seed = 1});
  need(generator.prompt(std::vector<model::Token>(prompt.begin(), prompt.end())));
  std::string text = prompt;
  for (int i = 0; i < count; ++i) text += static_cast<char>(need(generator.next()));
  return text;
}

}  // namespace

int main() {
  need(model::register_model("bigram", embed::Bigram::create));
  auto bigram = need(model::make_model("bigram", {{"context", "16"}}));

  std::string text;
  for (int i = 0; i < 40; ++i) text += "she sells sea shells by the sea shore. ";
  const std::vector<model::Sample> samples = cut(text, bigram->sample_bytes());
  const double tokens = static_cast<double>(samples.size() * bigram->tokens_per_sample());

  auto backend = cpu::open_backend();
  auto program = need(bigram->program(*backend, 1));
  std::vector<float> weights(bigram->parameter_count()), gradient(weights.size());
  bigram->initialise(1, weights);

  double first = 0, last = 0;
  for (int step = 0; step < 200; ++step) {
    need(program->load(weights));
    last = need(program->gradient(0, samples, gradient)) / tokens;
    if (step == 0) first = last;
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i] -= 20.0f * gradient[i] / static_cast<float>(tokens);
  }
  std::printf("loss %.3f -> %.3f nats a byte\n%s\n", first, last,
              continue_text(*program, "she ", 60).c_str());
  return first > 5.5 && last < 1.5 ? 0 : 1;
}
