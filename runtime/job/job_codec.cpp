#include "runtime/job/job_codec.hpp"

#include <type_traits>

#include "runtime/base/wire_vector.hpp"
#include "runtime/view/view_fields_codec.hpp"
#include "schemas/job_generated.h"

namespace gpunode::job {

namespace {

namespace wire = gpunode::wire::job;
using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using view::digest_from_wire;
using view::from_wire;
using view::name_from_wire;
using view::to_wire;

constexpr std::size_t kMaxReason = 1024;

Error corrupted(const std::string& what) {
  return {ErrorCode::corrupted, "job message: " + what};
}

// --- out ---

struct Written {
  wire::Body type;
  Offset<void> at;
};
template <class T>
Written written(wire::Body type, Offset<T> at) {
  return {type, at.Union()};
}

Written write(FlatBufferBuilder& out, const view::Prepare& body) {
  const auto ballot = to_wire(body.ballot);
  const auto why = out.CreateString(body.why.substr(0, kMaxReason));
  return written(wire::Body::Prepare, wire::CreatePrepare(out, why, &ballot));
}
Written write(FlatBufferBuilder& out, const view::Promise& body) {
  const auto ballot = to_wire(body.ballot);
  const auto standing = to_wire(out, body.standing);
  const auto signature = to_wire(body.signature);
  if (!body.accepted)
    return written(wire::Body::Promise,
                   wire::CreatePromise(out, &ballot, nullptr, 0, standing, 0, &signature));
  const auto accepted = to_wire(out, body.accepted->view);
  const auto accepted_ballot = to_wire(body.accepted->ballot);
  const auto proof = to_wire(out, body.accepted->proof, body.accepted->view, false);
  return written(wire::Body::Promise, wire::CreatePromise(out, &ballot, &accepted_ballot, accepted,
                                                          standing, proof, &signature));
}
Written write(FlatBufferBuilder& out, const view::Refuse& body) {
  const auto ballot = to_wire(body.promised);
  return written(wire::Body::Refuse, wire::CreateRefuse(out, &ballot));
}
Written write(FlatBufferBuilder& out, const view::Accept& body) {
  const auto ballot = to_wire(body.ballot);
  const auto view = to_wire(out, body.view);
  const auto proof = to_wire(out, body.proof, body.view, false);
  return written(wire::Body::Accept, wire::CreateAccept(out, &ballot, view, proof));
}
Written write(FlatBufferBuilder& out, const view::Accepted& body) {
  const auto ballot = to_wire(body.ballot);
  const auto signature = to_wire(body.signature);
  return written(wire::Body::Accepted, wire::CreateAccepted(out, &ballot, &signature));
}
Written write(FlatBufferBuilder& out, const view::Probe& body) {
  return written(wire::Body::Probe, wire::CreateProbe(out, body.nonce));
}
Written write(FlatBufferBuilder& out, const view::Echo& body) {
  return written(wire::Body::Echo, wire::CreateEcho(out, body.nonce));
}
Written write(FlatBufferBuilder& out, const view::NoteFloor& body) {
  const auto floor = to_wire(out, body.floor);
  return written(wire::Body::NoteFloor, wire::CreateNoteFloor(out, floor));
}
Written write(FlatBufferBuilder& out, const view::FloorNoted& body) {
  const auto history = to_wire(body.name.history);
  return written(wire::Body::FloorNoted, wire::CreateFloorNoted(out, &history, body.name.step));
}
Written write(FlatBufferBuilder& out, const Vote& body) {
  return std::visit([&](const auto& vote) { return write(out, vote); }, body.message);
}
Written write(FlatBufferBuilder& out, const FreezeHint& body) {
  const auto reason = out.CreateString(body.reason.substr(0, kMaxReason));
  const auto suspects = out.CreateVectorOfStructs(to_wire(body.suspects));
  return written(wire::Body::FreezeHint, wire::CreateFreezeHint(out, reason, suspects));
}
Written write(FlatBufferBuilder& out, const ViewNotice& body) {
  return written(wire::Body::ViewNotice, wire::CreateViewNotice(out, to_wire(out, body.chain)));
}
Written write(FlatBufferBuilder& out, const ViewAsk& body) {
  const auto history = to_wire(body.proven.history);
  const auto digest = to_wire(body.digest);
  return written(wire::Body::ViewAsk,
                 wire::CreateViewAsk(out, &history, body.proven.view_id, &digest));
}
Written write(FlatBufferBuilder& out, const JoinAsk& body) {
  const auto fingerprint = to_wire(body.fingerprint);
  const auto heard = out.CreateVectorOfStructs(to_wire(body.heard));
  const auto checkpoint = to_wire(body.checkpoint, body.checkpoint_digest);
  return written(wire::Body::JoinAsk,
                 wire::CreateJoinAsk(out, &fingerprint, body.outside, body.received_bytes,
                                     body.ready, body.step, heard, &checkpoint));
}
Written write(FlatBufferBuilder& out, const WitnessOffer& message) {
  return written(wire::Body::WitnessOffer, wire::CreateWitnessOffer(out, message.leaves));
}
Written write(FlatBufferBuilder& out, const JoinRefused& body) {
  const auto reason = out.CreateString(body.reason.substr(0, kMaxReason));
  return written(wire::Body::JoinRefused, wire::CreateJoinRefused(out, reason));
}
Written write(FlatBufferBuilder& out, const StepStatus& body) {
  const auto result = to_wire(body.result);
  return written(wire::Body::StepStatus,
                 wire::CreateStepStatus(out, body.committed, body.state_ready, body.finished,
                                        body.results_from, &result));
}
Written write(FlatBufferBuilder& out, const StateAsk& body) {
  const auto digest = to_wire(body.digest);
  return written(wire::Body::StateAsk, wire::CreateStateAsk(out, body.step, &digest));
}
Written write(FlatBufferBuilder& out, const StateMeta& body) {
  const auto digest = to_wire(body.digest);
  const auto result = to_wire(body.result_digest);
  const wire::DataFingerprint data_fingerprint(to_wire(body.data_fingerprint.hash_sum),
                                               body.data_fingerprint.sample_count);
  return written(wire::Body::StateMeta, wire::CreateStateMeta(out, body.step, body.size_bytes,
                                                              &digest, &result, &data_fingerprint));
}
Written write(FlatBufferBuilder& out, const StateRead& body) {
  const auto digest = to_wire(body.digest);
  return written(wire::Body::StateRead,
                 wire::CreateStateRead(out, &digest, body.offset, body.length));
}
Written write(FlatBufferBuilder& out, const StatePart& body) {
  const auto digest = to_wire(body.digest);
  return written(wire::Body::StatePart, wire::CreateStatePart(out, &digest, body.offset));
}
Written write(FlatBufferBuilder& out, const ResultRead& body) {
  return written(wire::Body::ResultRead,
                 wire::CreateResultRead(out, body.step, body.offset, body.length));
}
Written write(FlatBufferBuilder& out, const ResultPart& body) {
  const auto digest = to_wire(body.digest);
  const wire::DataFingerprint data_fingerprint(to_wire(body.data_fingerprint.hash_sum),
                                               body.data_fingerprint.sample_count);
  return written(wire::Body::ResultPart,
                 wire::CreateResultPart(out, body.step, body.offset, &digest, &data_fingerprint));
}
Written write(FlatBufferBuilder& out, const LeaseAsk& body) {
  const auto checkpoint = to_wire(body.checkpoint, body.digest);
  return written(wire::Body::LeaseAsk,
                 wire::CreateLeaseAsk(out, body.asked.time_since_epoch().count(), &checkpoint));
}
Written write(FlatBufferBuilder& out, const LeaseGrant& body) {
  const auto checkpoint = to_wire(body.checkpoint, {});
  return written(wire::Body::LeaseGrant,
                 wire::CreateLeaseGrant(out, body.asked.time_since_epoch().count(), body.granted,
                                        body.keeps_copies, &checkpoint));
}
Written write(FlatBufferBuilder& out, const GroupInvite& body) {
  const auto bytes =
      out.CreateVector(reinterpret_cast<const std::uint8_t*>(body.bytes.data()), body.bytes.size());
  return written(wire::Body::GroupInvite, wire::CreateGroupInvite(out, bytes));
}
Written write(FlatBufferBuilder&, const StepMessage&) {
  return {wire::Body::NONE, {}};
}

// --- in ---

Result<JobBody> read(const wire::Promise& from, std::size_t frame_bytes) {
  view::Promise promise;
  promise.ballot = from_wire(from.ballot());
  if (from.accepted()) {
    auto accepted = from_wire(from.accepted());
    if (!accepted) return accepted.error();
    view::ProofBudget budget(frame_bytes);
    auto proof = from_wire(from.accepted_proof(), *accepted, budget);
    if (!proof) return proof.error();
    promise.accepted = view::AcceptedView{from_wire(from.accepted_ballot()), std::move(*accepted),
                                          std::move(*proof)};
  }
  promise.signature = from_wire(from.signature());
  auto standing = from_wire(from.standing());
  if (!standing) return standing.error();
  promise.standing = std::move(*standing);
  return JobBody{Vote{std::move(promise)}};
}

Result<JobBody> read(const wire::Accept& from, std::size_t frame_bytes) {
  auto view = from_wire(from.view());
  if (!view) return view.error();
  view::ProofBudget budget(frame_bytes);
  auto proof = from_wire(from.proof(), *view, budget);
  if (!proof) return proof.error();
  return JobBody{Vote{view::Accept{from_wire(from.ballot()), std::move(*view), std::move(*proof)}}};
}

Result<JobBody> read(const wire::FreezeHint& from) {
  auto suspects = from_wire(from.suspects());
  if (!suspects) return suspects.error();
  if (from.reason() && from.reason()->size() > kMaxReason) return corrupted("a long reason");
  return JobBody{FreezeHint{from.reason() ? from.reason()->str() : "", std::move(*suspects)}};
}

Result<JobBody> read(const wire::ViewNotice& from, std::size_t frame_bytes) {
  auto chain = from_wire(from.chain(), frame_bytes);
  if (!chain) return chain.error();
  if (chain->empty()) return corrupted("no view");
  return JobBody{ViewNotice{std::move(*chain)}};
}

Result<JobBody> read(const wire::Prepare& from) {
  if (from.why() && from.why()->size() > kMaxReason) return corrupted("a long reason");
  return JobBody{
      Vote{view::Prepare{from_wire(from.ballot()), from.why() ? from.why()->str() : ""}}};
}

Result<JobBody> read(const wire::JoinRefused& from) {
  if (from.reason() && from.reason()->size() > kMaxReason) return corrupted("a long reason");
  return JobBody{JoinRefused{from.reason() ? from.reason()->str() : ""}};
}

Result<JobBody> read(const wire::JoinAsk& from) {
  auto heard = from_wire(from.heard());
  if (!heard) return heard.error();
  return JobBody{JoinAsk{from_wire(from.fingerprint()), from.outside(), from.received_bytes(),
                         from.ready(), from.step(), std::move(*heard),
                         name_from_wire(from.checkpoint()), digest_from_wire(from.checkpoint())}};
}

Result<JobBody> read(const wire::ResultPart& from, SharedBytes payload) {
  ResultPart part{from.step(), from.offset(), from_wire(from.digest()), {}, std::move(payload)};
  if (from.data_fingerprint())
    part.data_fingerprint = {from_wire(&from.data_fingerprint()->hash_sum()),
                             from.data_fingerprint()->sample_count()};
  return JobBody{std::move(part)};
}

Result<JobBody> read(const wire::StateMeta& from) {
  StateMeta meta{from.step(),
                 from.size_bytes(),
                 from_wire(from.digest()),
                 from_wire(from.result_digest()),
                 {}};
  if (from.data_fingerprint())
    meta.data_fingerprint = {from_wire(&from.data_fingerprint()->hash_sum()),
                             from.data_fingerprint()->sample_count()};
  return JobBody{meta};
}

Result<JobBody> read_body(const wire::JobFrame& frame, std::size_t frame_bytes,
                          SharedBytes payload) {
  switch (frame.body_type()) {
    case wire::Body::Prepare:
      return read(*frame.body_as_Prepare());
    case wire::Body::Promise:
      return read(*frame.body_as_Promise(), frame_bytes);
    case wire::Body::Refuse:
      return JobBody{Vote{view::Refuse{from_wire(frame.body_as_Refuse()->promised())}}};
    case wire::Body::Accept:
      return read(*frame.body_as_Accept(), frame_bytes);
    case wire::Body::Accepted:
      return JobBody{Vote{view::Accepted{from_wire(frame.body_as_Accepted()->ballot()),
                                         from_wire(frame.body_as_Accepted()->signature())}}};
    case wire::Body::FreezeHint:
      return read(*frame.body_as_FreezeHint());
    case wire::Body::ViewNotice:
      return read(*frame.body_as_ViewNotice(), frame_bytes);
    case wire::Body::ViewAsk:
      return JobBody{ViewAsk{
          {from_wire(frame.body_as_ViewAsk()->proven()), frame.body_as_ViewAsk()->proven_id()},
          from_wire(frame.body_as_ViewAsk()->digest())}};
    case wire::Body::JoinAsk:
      return read(*frame.body_as_JoinAsk());
    case wire::Body::JoinRefused:
      return read(*frame.body_as_JoinRefused());
    case wire::Body::StepStatus: {
      const auto& status = *frame.body_as_StepStatus();
      return JobBody{StepStatus{status.committed(), status.state_ready(), status.finished(),
                                status.results_from(), from_wire(status.result())}};
    }
    case wire::Body::StateAsk: {
      const auto& ask = *frame.body_as_StateAsk();
      return JobBody{StateAsk{ask.step(), from_wire(ask.digest())}};
    }
    case wire::Body::StateMeta:
      return read(*frame.body_as_StateMeta());
    case wire::Body::StateRead: {
      const auto& ask = *frame.body_as_StateRead();
      return JobBody{StateRead{from_wire(ask.digest()), ask.offset(), ask.length()}};
    }
    case wire::Body::StatePart: {
      const auto& part = *frame.body_as_StatePart();
      return JobBody{StatePart{from_wire(part.digest()), part.offset(), std::move(payload)}};
    }
    case wire::Body::WitnessOffer:
      return JobBody{WitnessOffer{frame.body_as_WitnessOffer()->leaves()}};
    case wire::Body::Probe:
      return JobBody{Vote{view::Probe{frame.body_as_Probe()->nonce()}}};
    case wire::Body::Echo:
      return JobBody{Vote{view::Echo{frame.body_as_Echo()->nonce()}}};
    case wire::Body::ResultRead: {
      const auto& ask = *frame.body_as_ResultRead();
      return JobBody{ResultRead{ask.step(), ask.offset(), ask.length()}};
    }
    case wire::Body::ResultPart:
      return read(*frame.body_as_ResultPart(), std::move(payload));
    case wire::Body::LeaseAsk: {
      const auto& ask = *frame.body_as_LeaseAsk();
      return JobBody{LeaseAsk{Time(Duration(ask.asked())), name_from_wire(ask.checkpoint()),
                              digest_from_wire(ask.checkpoint())}};
    }
    case wire::Body::LeaseGrant: {
      const auto& grant = *frame.body_as_LeaseGrant();
      return JobBody{LeaseGrant{Time(Duration(grant.asked())), grant.granted(),
                                grant.keeps_copies(), name_from_wire(grant.checkpoint())}};
    }
    case wire::Body::GroupInvite: {
      const auto* bytes = frame.body_as_GroupInvite()->bytes();
      if (!bytes || bytes->size() == 0 || bytes->size() > GroupInvite::kMostInvite)
        return corrupted("an invite of no length that one has");
      const auto* data = reinterpret_cast<const std::byte*>(bytes->data());
      return JobBody{GroupInvite{Bytes(data, data + bytes->size())}};
    }
    case wire::Body::NoteFloor: {
      auto floor = from_wire(frame.body_as_NoteFloor()->floor());
      if (!floor) return floor.error();
      return JobBody{Vote{view::NoteFloor{std::move(*floor)}}};
    }
    case wire::Body::FloorNoted: {
      const auto& noted = *frame.body_as_FloorNoted();
      return JobBody{Vote{view::FloorNoted{{from_wire(noted.history()), noted.step()}}}};
    }
    case wire::Body::NONE:
      break;
  }
  return corrupted("a kind that this version does not know");
}

}  // namespace

collective::EncodedMessage encode_message(const JobMessage& message) {
  if (const auto* step = std::get_if<StepMessage>(&message.body)) {
    auto frame = collective::encode_exchange(
        {message.view.view_id, step->step, message.view.history, step->plan}, step->message);
    return {std::move(frame.body), std::move(frame.payload)};
  }
  FlatBufferBuilder out;
  const Written body = std::visit([&](const auto& one) { return write(out, one); }, message.body);
  const auto job = to_wire(message.job);
  const auto history = to_wire(message.view.history);
  wire::FinishJobFrameBuffer(out, wire::CreateJobFrame(out, &job, &history, message.view.view_id,
                                                       message.boot, body.type, body.at));
  const auto* data = reinterpret_cast<const std::byte*>(out.GetBufferPointer());
  collective::EncodedMessage encoded{Bytes(data, data + out.GetSize()), {}};
  if (const auto* part = std::get_if<StatePart>(&message.body)) encoded.payload = part->payload;
  if (const auto* part = std::get_if<ResultPart>(&message.body)) encoded.payload = part->payload;
  return encoded;
}

Result<JobMessage> decode_message(ByteView body, SharedBytes payload, const JobId& job,
                                  std::uint64_t element_count) {
  JobMessage message;
  message.job = job;
  if (collective::is_exchange_body(body)) {
    const auto layout = collective::ChunkLayout::of(element_count);
    auto named = collective::decode_exchange(body, std::move(payload), layout.chunk_count());
    if (!named) return named.error();
    message.view = {named->name.history, named->name.view_id};
    message.body = StepMessage{named->name.step, named->name.plan, std::move(named->message)};
    return message;
  }
  const Bytes aligned = to_bytes(body);
  const auto* data = reinterpret_cast<const std::uint8_t*>(aligned.data());
  flatbuffers::Verifier verifier(data, aligned.size(), 10, view::kMaxTables);
  if (aligned.size() < 16 || !wire::VerifyJobFrameBuffer(verifier))
    return corrupted("not a frame of this protocol");
  const wire::JobFrame& frame = *wire::GetJobFrame(data);
  if (from_wire(frame.job()) != job) return corrupted("it belongs to another job");
  if (!payload.empty() && frame.body_type() != wire::Body::StatePart &&
      frame.body_type() != wire::Body::ResultPart)
    return corrupted("a payload where none belongs");
  if (frame.body_type() != wire::Body::NONE && frame.body() == nullptr) return corrupted("no body");
  message.view = {from_wire(frame.history()), frame.view_id()};
  message.boot = frame.boot();
  auto decoded = read_body(frame, aligned.size(), std::move(payload));
  if (!decoded) return decoded.error();
  message.body = std::move(*decoded);
  return message;
}

}  // namespace gpunode::job
