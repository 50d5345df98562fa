#include "actors/job/job_note_codec.hpp"

#include "runtime/base/aligned_copy.hpp"
#include "runtime/base/wire_vector.hpp"
#include "schemas/jobs_generated.h"

namespace gpunode::jobs {

namespace wire = gpunode::wire::jobs;
using flatbuffers::GetString;

namespace {

constexpr std::size_t kMaxRefusals = 32, kMaxReasonBytes = 400;

auto write_bytes(flatbuffers::FlatBufferBuilder& builder, ByteView bytes) {
  return builder.CreateVector(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

flatbuffers::Offset<void> write(flatbuffers::FlatBufferBuilder& builder, const Fitness& fitness) {
  auto digest =
      builder.CreateVector(reinterpret_cast<const std::uint8_t*>(fitness.data_digest.data()),
                           fitness.data_digest.size());
  auto print = builder.CreateString(fitness.fingerprint);
  auto print_text = builder.CreateString(fitness.fingerprint_text);
  auto version = builder.CreateString(fitness.version);
  auto model = builder.CreateString(fitness.model_digest);
  return wire::CreateFitness(builder, digest, fitness.data_bytes, fitness.sample_count, print,
                             print_text, version, model, fitness.memory_needed_bytes,
                             fitness.memory_available_bytes, fitness.site)
      .Union();
}

flatbuffers::Offset<void> write(flatbuffers::FlatBufferBuilder& builder, const JobHint& hint) {
  auto name = builder.CreateString(hint.name);
  auto phase = builder.CreateString(to_string(hint.phase));
  auto reason = builder.CreateString(hint.reason.substr(0, 1024));
  auto labels = builder.CreateVectorOfStrings(hint.labels);
  auto submitter = builder.CreateVector(
      reinterpret_cast<const std::uint8_t*>(hint.submitter.value.data()), sizeof(NodeId));
  auto waited_as = builder.CreateString(hint.waited_as);
  auto removal = write_bytes(builder, hint.removal);
  return wire::CreateHint(builder, name, phase, reason, hint.step, hint.steps, hint.view_id,
                          hint.members, hint.wanted, hint.ended, labels, hint.loss, hint.submitted,
                          submitter, waited_as, removal, hint.has_result)
      .Union();
}

flatbuffers::Offset<void> write(flatbuffers::FlatBufferBuilder& builder,
                                const JobRefusals& refusals) {
  std::vector<flatbuffers::Offset<wire::Refused>> list;
  for (const Refusal& one : refusals.refused) {
    if (list.size() == kMaxRefusals) break;
    auto node = builder.CreateVector(reinterpret_cast<const std::uint8_t*>(one.node.value.data()),
                                     one.node.value.size());
    auto reason = builder.CreateString(one.reason.substr(0, kMaxReasonBytes));
    list.push_back(wire::CreateRefused(builder, node, reason));
  }
  auto refused = builder.CreateVector(list);
  return wire::CreateRefusals(builder, refusals.job.high, refusals.job.low, refused).Union();
}

ByteView view(const flatbuffers::Vector<std::uint8_t>* bytes) {
  if (!bytes) return {};
  return {reinterpret_cast<const std::byte*>(bytes->data()), bytes->size()};
}

flatbuffers::Offset<void> write(flatbuffers::FlatBufferBuilder& builder, const QueueNote& note) {
  Bytes nodes;
  for (const NodeId& node : note.holders)
    nodes.insert(nodes.end(), node.value.begin(), node.value.end());
  auto promised = write_bytes(builder, note.vote.promised.proposer.value);
  auto accepted = write_bytes(builder, note.vote.accepted.proposer.value);
  auto manifest = write_bytes(builder, note.vote.manifest);
  auto holders = write_bytes(builder, nodes);
  return wire::CreateQueue(builder, note.job.high, note.job.low, note.vote.promised.round, promised,
                           note.vote.accepted.round, accepted, manifest, holders)
      .Union();
}

Result<JobNote> read(const wire::Queue& in) {
  const auto promised = NodeId::from(view(in.promised_by()));
  const auto accepted = NodeId::from(view(in.accepted_by()));
  const ByteView holders = view(in.holders());
  if (!promised || !accepted || holders.size() % 32 != 0 || holders.size() / 32 > kMostHolders)
    return Error{ErrorCode::corrupted, "not a note about a job in the queue"};
  QueueNote out{{in.job_high(), in.job_low()},
                {{in.promised_round(), *promised},
                 {in.accepted_round(), *accepted},
                 to_bytes(view(in.manifest()))},
                {}};
  for (std::size_t at = 0; at < holders.size(); at += 32)
    out.holders.push_back(*NodeId::from(holders.subspan(at, 32)));
  return JobNote(std::move(out));
}

Result<JobNote> read(const wire::Refusals& in) {
  Error corrupted{ErrorCode::corrupted, "not a list of refused nodes"};
  if (!in.refused() || in.refused()->size() > kMaxRefusals) return corrupted;
  JobRefusals out{{in.job_high(), in.job_low()}, {}};
  for (const wire::Refused* one : *in.refused()) {
    if (!one->node()) return corrupted;
    auto node = NodeId::from(
        {reinterpret_cast<const std::byte*>(one->node()->data()), one->node()->size()});
    if (!node) return corrupted;
    out.refused.push_back({*node, GetString(one->reason()).substr(0, kMaxReasonBytes)});
  }
  return JobNote(std::move(out));
}

wire::Body body_of(const JobNote& note) {
  if (std::holds_alternative<Fitness>(note)) return wire::Body::Fitness;
  if (std::holds_alternative<QueueNote>(note)) return wire::Body::Queue;
  return std::holds_alternative<JobHint>(note) ? wire::Body::Hint : wire::Body::Refusals;
}

}  // namespace

Bytes encode(const JobNote& note) {
  flatbuffers::FlatBufferBuilder builder(512);
  auto body = std::visit([&](const auto& value) { return write(builder, value); }, note);
  builder.Finish(wire::CreateNote(builder, body_of(note), body), wire::NoteIdentifier());
  return finished_bytes(builder);
}

Result<JobNote> decode_note(ByteView bytes) {
  Error corrupted{ErrorCode::corrupted, "not a note about a job"};
  constexpr std::size_t kLimit = 320 * 1024;  // with a manifest in it
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
    out.fingerprint = GetString(in->fingerprint());
    out.fingerprint_text = GetString(in->fingerprint_text());
    out.version = GetString(in->version());
    out.model_digest = GetString(in->model_digest());
    out.memory_needed_bytes = in->memory_needed_bytes();
    out.memory_available_bytes = in->memory_available_bytes();
    out.site = in->site();
    return JobNote(std::move(out));
  }
  if (const wire::Refusals* in = note->body_as_Refusals()) return read(*in);
  if (const wire::Queue* in = note->body_as_Queue()) return read(*in);
  const wire::Hint* in = note->body_as_Hint();
  if (!in) return corrupted;
  const auto phase = parse_job_phase(GetString(in->phase()));
  if (!phase) return corrupted;
  JobHint out{GetString(in->name()),
              GetString(in->reason()),
              *phase,
              in->step(),
              in->steps(),
              in->view_id(),
              in->members(),
              in->wanted(),
              in->ended(),
              {},
              in->loss(),
              in->submitted(),
              {},
              GetString(in->waited_as()).substr(0, 32),
              to_bytes(view(in->removal())),
              in->has_result()};
  if (in->submitter())
    out.submitter = NodeId::from({reinterpret_cast<const std::byte*>(in->submitter()->data()),
                                  in->submitter()->size()})
                        .value_or(NodeId{});
  WireBudget budget(bytes.size());
  if (in->labels())
    for (const auto* label : *in->labels()) {
      // Longer ones than there are bytes lie in one another.
      if (!budget.take(label->size() + sizeof(flatbuffers::uoffset_t))) return corrupted;
      out.labels.push_back(label->str());
    }
  return JobNote(std::move(out));
}

}  // namespace gpunode::jobs
