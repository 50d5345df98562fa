// Model code is the embedder's: what it throws, a null where an object was promised, and a
// description that cannot be right become errors here, in words for who wrote it. Stateless.
#pragma once

#include <exception>
#include <memory>
#include <string_view>

#include "kernels/model/model.hpp"

namespace gpunode::model {

// What was thrown, as an error that says its text; `who` threw it.
Error thrown_error(std::string_view who, const std::exception_ptr& thrown);

// The result of `call`, or the error of what it throws.
template <class Call>
auto guarded(std::string_view who, Call&& call) -> decltype(call()) {
  try {
    return call();
  } catch (...) {
    return thrown_error(who, std::current_exception());
  }
}

// Model::program, Program::session and Program::decoder, or one made of sessions; their success is
// never null. Fail with: what these fail with; internal (null, or thrown).
Result<std::unique_ptr<Program>> make_program(const Model& model, ops::Backend& backend,
                                              int workers);
Result<std::unique_ptr<Session>> make_session(Program& program);
// `model`: the program's.
Result<std::unique_ptr<Decoder>> make_decoder(const Model& model, Program& program,
                                              const DecoderOptions& options);

// What a program told of these samples, if it can be: the predicted tokens that count are none too
// many, and of those that were right there are no more. A loss may be anything: a model that
// diverges tells infinite ones. Fail with: internal.
struct Samples {
  std::size_t count = 0, tokens_each = 0;
};
Result<LossSum> believed(const LossSum& told, const Samples& samples);
Result<Evaluation> believed(const Evaluation& told, const Samples& samples);

// Whether the description fits together, as training and checkpoints take it for granted: extents,
// counts, names, stages. Fails with: invalid_argument.
Result<void> validate(const Model& model);

}  // namespace gpunode::model
