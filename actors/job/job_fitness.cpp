#include "actors/job/job_fitness.hpp"

namespace gpunode::jobs {
namespace {

constexpr std::size_t kShort = 8;  // hexadecimal digits of a digest that a person compares

std::string shortened(const std::string& digest) {
  return digest.substr(0, kShort);
}

std::string data_text(const Fitness& fitness) {
  return "sha256 " + shortened(to_hex(fitness.data_digest)) + ", " +
         std::to_string(fitness.data_bytes) + " bytes";
}

std::string bits_text(const Fitness& fitness) {
  return fitness.fingerprint_text + ": " + shortened(fitness.fingerprint);
}

}  // namespace

Fitness fitness_for(const job::JobSpec& spec) {
  Fitness fitness;
  brought(fitness) = brought(spec);
  return fitness;
}

std::optional<Error> data_difference(const Fitness& own, const Fitness& others,
                                     const job::JobSpec& spec) {
  if (own.data_digest != others.data_digest || own.data_bytes != others.data_bytes)
    return Error{ErrorCode::invalid_argument,
                 "its data at " + spec.data.text() + " differs from that of the others (" +
                     data_text(own) + "; the others " + data_text(others) +
                     "): copy it from one of them"};
  if (own.sample_count != others.sample_count)
    return Error{ErrorCode::invalid_argument,
                 "it finds " + std::to_string(own.sample_count) + " samples in its data at " +
                     spec.data.text() + ", the others " + std::to_string(others.sample_count) +
                     ": start it with the program and model code that the others run"};
  return std::nullopt;
}

std::optional<Error> difference(const Fitness& own, const Fitness& others,
                                const job::JobSpec& spec) {
  if (own.version != others.version)
    return Error{ErrorCode::protocol_mismatch,
                 "it runs gpunode " + own.version + ", the others " + others.version +
                     ": install the same version on every node of the job"};
  if (own.model_digest != others.model_digest)
    return Error{ErrorCode::invalid_argument,
                 "its model '" + spec.model_kind + "' is another one (" +
                     shortened(own.model_digest) + ", that of the others " +
                     shortened(others.model_digest) +
                     "): start it with the program and model code that the others run"};
  if (auto data = data_difference(own, others, spec)) return data;
  if (own.fingerprint != others.fingerprint)
    return Error{ErrorCode::unsupported,
                 "it computes other bits (" + bits_text(own) + "; the others " + bits_text(others) +
                     "): members need the same instruction set, oneDNN version and model code"};
  return std::nullopt;
}

}  // namespace gpunode::jobs
