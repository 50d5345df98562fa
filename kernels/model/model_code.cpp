#include "kernels/model/model_code.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <set>

#include "kernels/model/decoder.hpp"
#include "kernels/model/encoder.hpp"
#include "runtime/base/thrown_error.hpp"

namespace gpunode::model {
namespace {

constexpr std::size_t kMostElements = std::numeric_limits<std::size_t>::max() / 64;

Error wrong(std::string text) {
  return {ErrorCode::invalid_argument, std::move(text)};
}

template <class T>
Result<std::unique_ptr<T>> present(Result<std::unique_ptr<T>> made, const char* call) {
  if (made && !*made)
    return Error{ErrorCode::internal,
                 std::string(call) + " returned null as a success: return an Error instead"};
  return made;
}

// Of one parameter; element_count() itself neither sees a negative extent nor an overflow.
Result<std::size_t> elements_of(const ParameterSpec& parameter) {
  std::size_t count = 1;
  for (const std::int64_t extent : parameter.shape) {
    if (extent <= 0)
      return wrong("parameter '" + parameter.name + "' has the extent " + std::to_string(extent) +
                   ": every extent is at least 1");
    if (static_cast<std::size_t>(extent) > kMostElements / count)
      return wrong("parameter '" + parameter.name + "' has more elements than can be counted");
    count *= static_cast<std::size_t>(extent);
  }
  return count;
}

Result<void> validate_parameters(const Model& model) {
  std::set<std::string> names;
  std::size_t sum = 0;
  bool behind = false;  // all trained ones
  for (const ParameterSpec& parameter : model.parameters()) {
    const bool is_buffer = parameter.kind == ParameterKind::buffer;
    if (behind && !is_buffer)
      return wrong("parameter '" + parameter.name +
                   "' follows a buffer: buffers come behind all trained parameters");
    behind = is_buffer;
    if (is_buffer && !(parameter.momentum > 0 && parameter.momentum <= 1))
      return wrong("buffer '" + parameter.name + "' has the momentum " +
                   std::to_string(parameter.momentum) + ": it is above 0 and at most 1");
    if (parameter.name.empty()) return wrong("a parameter has no name");
    if (!names.insert(parameter.name).second)
      return wrong("two parameters are named '" + parameter.name +
                   "': checkpoints need a name of its own for each");
    const auto count = elements_of(parameter);
    if (!count) return count.error();
    if (*count > kMostElements - sum)
      return wrong("the parameters have more elements than can be counted");
    sum += *count;
  }
  if (sum == 0) return wrong("the model has no parameters");
  if (sum != model.parameter_count())
    return wrong("parameter_count() is " + std::to_string(model.parameter_count()) +
                 ", but the shapes of parameters() have " + std::to_string(sum) + " elements");
  return {};
}

// Whether the ranges are together all elements, each once.
Result<void> validate_stages(std::vector<ElementRange> stages, std::size_t count, bool sorted,
                             const std::string& call) {
  if (stages.empty()) return {};
  const auto by_first = [](const ElementRange& range) { return range.first; };
  if (!sorted) std::ranges::sort(stages, {}, by_first);
  std::size_t at = 0;
  for (const ElementRange& stage : stages) {
    if (stage.first != at || stage.count > count - at)
      return wrong(call + " does not name each of the " + std::to_string(count) + " elements once" +
                   (sorted ? ", in ascending order" : "") + ": see the range that begins at " +
                   std::to_string(stage.first));
    at += stage.count;
  }
  if (at == count) return {};
  return wrong(call + " leaves out the elements from " + std::to_string(at) + " on");
}

}  // namespace

Error thrown_error(std::string_view who, const std::exception_ptr& thrown) {
  const std::string name(who);
  try {
    std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    return {
        ErrorCode::out_of_memory,
        name + " ran out of memory: use a smaller model, fewer samples a slice, or more memory"};
  } catch (const ThrownError& failure) {
    return failure.error();
  } catch (const std::exception& failure) {
    return {ErrorCode::internal, name + " threw: " + failure.what()};
  } catch (...) {
    return {ErrorCode::internal, name + " threw something that is no std::exception"};
  }
}

Result<std::unique_ptr<Program>> make_program(const Model& model, ops::Backend& backend,
                                              int workers) {
  return guarded("Model::program",
                 [&] { return present(model.program(backend, workers), "Model::program"); });
}

Result<std::unique_ptr<Session>> make_session(Program& program) {
  return guarded("Program::session",
                 [&] { return present(program.session(), "Program::session"); });
}

Result<std::unique_ptr<Decoder>> make_decoder(const Model& model, Program& program,
                                              const DecoderOptions& options) {
  auto own = guarded("Program::decoder", [&] { return program.decoder(options); });
  if (!own || *own) return own;
  return sessions_as_decoder(program, model.vocabulary(), options);
}

Result<std::unique_ptr<Encoder>> make_encoder(Program& program) {
  return guarded("Program::encoder",
                 [&] { return present(program.encoder(), "Program::encoder"); });
}

namespace {

Result<void> believe_weight(const char* call, double weight, const Samples& samples) {
  const double most = static_cast<double>(samples.count) * static_cast<double>(samples.tokens_each);
  if (weight >= 0 && weight <= most) return {};
  return {ErrorCode::internal, std::string(call) + " told a weight of " + std::to_string(weight) +
                                   " for " + std::to_string(samples.count) + " samples of " +
                                   std::to_string(samples.tokens_each) +
                                   " tokens: it is how many of them count in the loss"};
}

}  // namespace

Result<LossSum> believed(const LossSum& told, const Samples& samples) {
  if (auto good = believe_weight("the model's gradient", told.weight, samples); !good)
    return good.error();
  return told;
}

Result<Evaluation> believed(const Evaluation& told, const Samples& samples) {
  if (auto good = believe_weight("the model's evaluation", told.weight, samples); !good)
    return good.error();
  if (told.correct && static_cast<double>(*told.correct) > told.weight)
    return {ErrorCode::internal, "the model's evaluation told " + std::to_string(*told.correct) +
                                     " right of " + std::to_string(told.weight) + " tokens"};
  return told;
}

Result<void> validate(const Model& model) {
  if (auto good = validate_parameters(model); !good) return good;
  const auto fields = model.sample_fields();
  if (fields.empty()) return wrong("sample_fields() is empty: a sample has at least one field");
  for (const SampleField& field : fields)
    if (field.name.empty() || field.count == 0)
      return wrong("the sample's field '" + field.name + "' has no name or no elements");
  if (model.tokens_per_sample() == 0)
    return wrong("tokens_per_sample() is 0: a sample has at least one to predict");
  if (model.vocabulary() == 0) return wrong("vocabulary() is 0");
  const std::size_t count = model.parameter_count();
  const auto stages = model.stages(), forward = model.forward_stages();
  if (stages.empty() != forward.empty())
    return wrong("only one of stages() and forward_stages() names stages: both do, or neither");
  if (auto good = validate_stages(stages, count, false, "stages()"); !good) return good;
  return validate_stages(forward, count, true, "forward_stages()");
}

}  // namespace gpunode::model
