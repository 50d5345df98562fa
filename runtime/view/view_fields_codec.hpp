// Fields that several schemas share (digest, node, ballot, view) to FlatBuffers and back. For the
// codecs of view and job alone: it drags in generated code.
#pragma once

#include "runtime/base/result.hpp"
#include "runtime/base/wire_vector.hpp"
#include "runtime/view/view_agreement.hpp"
#include "schemas/view_generated.h"

namespace gpunode::view {

inline constexpr std::size_t kMaxMembers = 1024;
inline constexpr std::size_t kMaxSlices = 4096;
inline constexpr std::size_t kMaxTurns = 4096;
inline constexpr std::size_t kMaxLinks = 2048;
// Of a frame or a file with that many views in it, and promises of most.
inline constexpr flatbuffers::uoffset_t kMaxTables = 64 + 3 * kMaxLinks + 50 * kMaxMembers;

wire::view::Digest to_wire(const Digest& digest);
wire::view::NodeId to_wire(const NodeId& node);
wire::view::Ballot to_wire(const Ballot& ballot);
std::vector<wire::view::NodeId> to_wire(const std::vector<NodeId>& nodes);
wire::view::Signature to_wire(const Signature& signature);
flatbuffers::Offset<wire::view::View> to_wire(flatbuffers::FlatBufferBuilder& builder,
                                              const View& view);
static_assert(sizeof(Member) == sizeof(wire::view::Member));  // see View::list_bytes
static_assert(sizeof(NodeId) == sizeof(wire::view::NodeId));
static_assert(sizeof(Turn) == sizeof(wire::view::Turn));
using WireChain = flatbuffers::Vector<flatbuffers::Offset<wire::view::DecidedView>>;
flatbuffers::Offset<WireChain> to_wire(flatbuffers::FlatBufferBuilder& builder,
                                       const ViewChain& chain);

using WireBytes = flatbuffers::Vector<std::uint8_t>;
// Nothing where there is none.
flatbuffers::Offset<WireBytes> to_wire(flatbuffers::FlatBufferBuilder& builder,
                                       const std::optional<SignedOrder>& order);

wire::view::History to_wire(const HistoryId& history);
flatbuffers::Offset<wire::view::Floor> to_wire(flatbuffers::FlatBufferBuilder& builder,
                                               const Floor& floor);

wire::view::Checkpoint to_wire(const CheckpointName& name, const Digest& digest);
flatbuffers::Offset<wire::view::Standing> to_wire(flatbuffers::FlatBufferBuilder& builder,
                                                  const Standing& where);
// Of what is proven: `next`.
flatbuffers::Offset<wire::view::Proof> to_wire(flatbuffers::FlatBufferBuilder& builder,
                                               const Proof& proof, const View& next,
                                               bool with_left_out = true);

// An absent field is the value's default.
CheckpointName name_from_wire(const wire::view::Checkpoint* from);
Digest digest_from_wire(const wire::view::Checkpoint* from);
Digest from_wire(const wire::view::Digest* digest);
NodeId from_wire(const wire::view::NodeId* node);
Ballot from_wire(const wire::view::Ballot* ballot);
// Fails with corrupted: more nodes than kMaxMembers.
Result<std::vector<NodeId>> from_wire(const flatbuffers::Vector<const wire::view::NodeId*>* nodes);
HistoryId from_wire(const wire::view::History* history);
Result<Floor> from_wire(const wire::view::Floor* floor);  // fails with corrupted: too many holders
// Fails with corrupted: over a limit, a node twice, a plan that names no member, no acceptor, a
// tie-breaker that is none.
Result<View> from_wire(const wire::view::View* view);
// Fails with corrupted: not an order.
Result<std::optional<SignedOrder>> from_wire(const WireBytes* order);
Signature from_wire(const wire::view::Signature* signature);
// Fails with corrupted: absent, over a limit, or what cannot be.
Result<Standing> from_wire(const wire::view::Standing* from);
// What is left to be read of the proofs that lie in one frame or file of `bytes`.
struct ProofBudget {
  explicit ProofBudget(std::size_t bytes) : sent(bytes) {}
  WireBudget sent;
  std::size_t in_memory = 0;  // so much was made of it so far, bytes
};
// Likewise, but an absent one is empty.
Result<Proof> from_wire(const wire::view::Proof* from, const View& next, ProofBudget& budget);
// `bytes`: of all that it lies in. Fails with corrupted: one of its views is, or there are too many
// of anything.
Result<ViewChain> from_wire(const WireChain* chain, std::size_t bytes);

}  // namespace gpunode::view
