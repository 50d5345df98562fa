// Standings to FlatBuffers and back.
#include "runtime/base/wire_vector.hpp"
#include "runtime/view/view_fields_codec.hpp"

namespace gpunode::view {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

namespace {
constexpr std::uint64_t kLongestLease = 60'000'000'000;  // nanoseconds

Error corrupted(const std::string& what) {
  return {ErrorCode::corrupted, "standing: " + what};
}
}  // namespace

wire::view::Checkpoint to_wire(const CheckpointName& name, const Digest& digest) {
  return {to_wire(name.history), name.step, to_wire(digest)};
}

CheckpointName name_from_wire(const wire::view::Checkpoint* from) {
  if (!from) return {};
  return {from_wire(&from->history()), from->step()};
}

Digest digest_from_wire(const wire::view::Checkpoint* from) {
  return from ? from_wire(&from->digest()) : Digest{};
}

Offset<wire::view::Standing> to_wire(FlatBufferBuilder& out, const Standing& where) {
  const auto unreachable = out.CreateVectorOfStructs(to_wire(where.unreachable));
  const auto plan = out.CreateVector(where.plan);
  const auto paces = out.CreateVector(where.paces);
  const auto learners = out.CreateVectorOfStructs(to_wire(where.learners));
  const auto state = to_wire(where.state_digest);
  const auto applied = to_wire(where.applied_result_digest);
  const auto held = to_wire(where.held_result_digest);
  const auto fingerprint = to_wire(where.fingerprint);
  const auto checkpoint = to_wire(where.checkpoint, where.checkpoint_digest);
  const auto floor = to_wire(out, where.floor);
  const auto order = to_wire(out, where.order);
  return wire::view::CreateStanding(
      out, where.boot, where.has_memory, where.leaving, where.finished, where.applied, where.held,
      &state, &applied, &held, &fingerprint, &checkpoint, unreachable, order, plan, paces, learners,
      static_cast<std::uint64_t>(where.lease_left.count()), floor, where.met);
}

Result<Standing> from_wire(const wire::view::Standing* from) {
  if (!from) return corrupted("a promise without standing");
  Standing where;
  where.boot = from->boot();
  where.has_memory = from->has_memory();
  where.leaving = from->leaving();
  where.finished = from->finished();
  where.applied = from->applied();
  where.held = from->held();
  where.state_digest = from_wire(from->state_digest());
  where.applied_result_digest = from_wire(from->applied_result_digest());
  where.held_result_digest = from_wire(from->held_result_digest());
  where.fingerprint = from_wire(from->fingerprint());
  where.checkpoint = name_from_wire(from->checkpoint());
  where.checkpoint_digest = digest_from_wire(from->checkpoint());
  auto unreachable = from_wire(from->unreachable());
  if (!unreachable) return unreachable.error();
  where.unreachable = std::move(*unreachable);
  auto order = from_wire(from->order());
  if (!order) return order.error();
  where.order = *order;
  if (where.order && where.order->kind > OrderKind::resume_from)
    return corrupted("an order that no promise carries");
  if (from->plan()) {
    if (from->plan()->size() > kMaxSlices) return corrupted("a plan of too many slices");
    where.plan.assign(from->plan()->begin(), from->plan()->end());
  }
  if (from->paces()) {
    if (from->paces()->size() > kMaxMembers + 1) return corrupted("too many paces");
    if (!lies_aligned(from->paces())) return corrupted("misplaced paces");
    where.paces.assign(from->paces()->begin(), from->paces()->end());
  }
  auto learners = from_wire(from->learners());
  if (!learners) return learners.error();
  where.learners = std::move(*learners);
  auto floor = from_wire(from->floor());
  if (!floor) return floor.error();
  where.floor = std::move(*floor);
  where.met = from->met();
  if (from->lease_left() > kLongestLease) return corrupted("a lease without end");
  where.lease_left = Duration(static_cast<std::int64_t>(from->lease_left()));
  if (where.held < where.applied || where.held - where.applied > 1)
    return corrupted("a standing that cannot be");
  return where;
}

}  // namespace gpunode::view
