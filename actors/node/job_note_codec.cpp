#include "actors/node/job_note_codec.hpp"

#include "runtime/base/aligned_copy.hpp"
#include "schemas/jobs_generated.h"

namespace gpunode::node {

namespace wire = gpunode::wire::jobs;

namespace {

std::string text(const flatbuffers::String* value) {
  return value ? value->str() : "";
}

flatbuffers::Offset<void> write(flatbuffers::FlatBufferBuilder& builder, const Fitness& fitness) {
  auto digest =
      builder.CreateVector(reinterpret_cast<const std::uint8_t*>(fitness.data_digest.data()),
                           fitness.data_digest.size());
  auto print = builder.CreateString(fitness.fingerprint);
  auto print_text = builder.CreateString(fitness.fingerprint_text);
  return wire::CreateFitness(builder, digest, fitness.data_bytes, fitness.sample_count, print,
                             print_text)
      .Union();
}

flatbuffers::Offset<void> write(flatbuffers::FlatBufferBuilder& builder, const JobHint& hint) {
  auto name = builder.CreateString(hint.name);
  auto phase = builder.CreateString(hint.phase);
  auto reason = builder.CreateString(hint.reason.substr(0, 1024));
  auto labels = builder.CreateVectorOfStrings(hint.labels);
  return wire::CreateHint(builder, name, phase, reason, hint.step, hint.steps, hint.view_id,
                          hint.members, hint.wanted, hint.ended, labels, hint.loss)
      .Union();
}

}  // namespace

Bytes encode(const JobNote& note) {
  flatbuffers::FlatBufferBuilder builder(512);
  bool fitness = std::holds_alternative<Fitness>(note);
  auto body = std::visit([&](const auto& value) { return write(builder, value); }, note);
  builder.Finish(wire::CreateNote(builder, fitness ? wire::Body::Fitness : wire::Body::Hint, body),
                 wire::NoteIdentifier());
  return finished_bytes(builder);
}

Result<JobNote> decode_note(ByteView bytes) {
  Error corrupted{ErrorCode::corrupted, "not a note about a job"};
  constexpr std::size_t kLimit = 16 * 1024;
  if (bytes.size() > kLimit || bytes.size() < 8) return corrupted;
  AlignedCopy copy(bytes);
  flatbuffers::Verifier verifier(copy.data(), copy.size(), 8, 64);
  if (!wire::VerifyNoteBuffer(verifier)) return corrupted;
  const wire::Note* note = wire::GetNote(copy.data());
  if (const wire::Fitness* in = note->body_as_Fitness()) {
    Fitness out;
    if (in->data_digest())
      out.data_digest = to_bytes({reinterpret_cast<const std::byte*>(in->data_digest()->data()),
                                  in->data_digest()->size()});
    out.data_bytes = in->data_bytes();
    out.sample_count = in->sample_count();
    out.fingerprint = text(in->fingerprint());
    out.fingerprint_text = text(in->fingerprint_text());
    return JobNote(std::move(out));
  }
  const wire::Hint* in = note->body_as_Hint();
  if (!in) return corrupted;
  JobHint out{text(in->name()), text(in->phase()), text(in->reason()), in->step(),  in->steps(),
              in->view_id(),    in->members(),     in->wanted(),       in->ended(), {},
              in->loss()};
  if (in->labels())
    for (const auto* label : *in->labels()) out.labels.push_back(label->str());
  return JobNote(std::move(out));
}

}  // namespace gpunode::node
