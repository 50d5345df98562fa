// View and votes to bytes and back, over schemas/view.fbs. What is read is verified before a field
// is touched, then checked for sense: later code may index members by what a view says.
#include <algorithm>
#include <set>

#include "runtime/base/wire_vector.hpp"
#include "runtime/view/view_fields_codec.hpp"

namespace gpunode::view {

namespace {

Error corrupted(const std::string& what) {
  return {ErrorCode::corrupted, "view record: " + what};
}

template <class T>
bool has_twice(const std::vector<T>& values) {
  std::set<T> seen;
  return std::any_of(values.begin(), values.end(),
                     [&](const T& value) { return !seen.insert(value).second; });
}

Result<View> checked(View view) {
  std::vector<NodeId> nodes;
  for (const Member& member : view.members) nodes.push_back(member.node);
  if (has_twice(nodes) || has_twice(view.acceptors)) return corrupted("a node appears twice");
  if (view.acceptors.empty()) return corrupted("no acceptors");
  if (!view.is_acceptor(view.tie)) return corrupted("the tie-breaker does not vote");
  if (view.view_id > 0 && view.members.empty()) return corrupted("no members");
  if (view.view_id == 0 && (!view.plan.empty() || !view.members.empty()))
    return corrupted("view 0 with members");
  for (const std::uint16_t rank : view.plan)
    if (rank >= view.members.size()) return corrupted("the plan names a rank that is none");
  return view;
}

}  // namespace

wire::view::Digest to_wire(const Digest& digest) {
  return {digest.high, digest.low};
}

wire::view::NodeId to_wire(const NodeId& node) {
  std::array<std::uint8_t, 32> value;
  std::memcpy(value.data(), node.value.data(), value.size());
  return wire::view::NodeId(flatbuffers::span<const std::uint8_t, 32>(value.data(), 32));
}

wire::view::Ballot to_wire(const Ballot& ballot) {
  return {ballot.round, to_wire(ballot.proposer)};
}

std::vector<wire::view::NodeId> to_wire(const std::vector<NodeId>& nodes) {
  std::vector<wire::view::NodeId> result;
  for (const NodeId& node : nodes) result.push_back(to_wire(node));
  return result;
}

flatbuffers::Offset<wire::view::View> to_wire(flatbuffers::FlatBufferBuilder& builder,
                                              const View& view) {
  std::vector<wire::view::Member> members;
  for (const Member& member : view.members) members.emplace_back(to_wire(member.node), member.boot);
  const auto members_at = builder.CreateVectorOfStructs(members);
  const auto acceptors_at = builder.CreateVectorOfStructs(to_wire(view.acceptors));
  const auto plan_at = builder.CreateVector(view.plan);
  const auto paces_at = builder.CreateVector(view.paces);
  const auto sources_at = builder.CreateVectorOfStructs(to_wire(view.sync_sources));
  const auto job = to_wire(view.job);
  const auto previous = to_wire(view.previous);
  const auto tie = to_wire(view.tie);
  const auto state = to_wire(view.state_digest);
  const auto result = to_wire(view.result_digest);
  const auto fingerprint = to_wire(view.fingerprint);
  const auto floor_at = to_wire(builder, view.floor);
  const auto order_at = to_wire(builder, view.order);
  const auto put_out_at = builder.CreateVectorOfStructs(to_wire(view.put_out));
  std::vector<wire::view::Turn> turns;
  for (const Turn& turn : view.turns)
    turns.emplace_back(turn.view_id, turn.base_step, turn.mark,
                       static_cast<std::uint8_t>(turn.kind));
  const auto turns_at = builder.CreateVectorOfStructs(turns);
  wire::view::ViewBuilder table(builder);
  table.add_job(&job);
  table.add_turns(turns_at);
  table.add_met(view.met);
  table.add_met_step(view.met_step);
  table.add_view_id(view.view_id);
  table.add_previous(&previous);
  table.add_members(members_at);
  table.add_acceptors(acceptors_at);
  table.add_tie(&tie);
  table.add_base_step(view.base_step);
  table.add_state_digest(&state);
  table.add_result_digest(&result);
  table.add_plan(plan_at);
  table.add_owner_rotation(view.owner_rotation);
  table.add_fingerprint(&fingerprint);
  table.add_restores(view.restores);
  table.add_disagreed_step(view.disagreed_step);
  table.add_sync_sources(sources_at);
  table.add_stopped(view.stopped);
  table.add_left_out(view.left_out);
  table.add_paces(paces_at);
  table.add_floor(floor_at);
  table.add_order(order_at);
  table.add_put_out(put_out_at);
  return table.Finish();
}

flatbuffers::Offset<WireBytes> to_wire(flatbuffers::FlatBufferBuilder& builder,
                                       const std::optional<SignedOrder>& order) {
  if (!order) return {};
  const Bytes bytes = encode(*order);
  return builder.CreateVector(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

Result<std::optional<SignedOrder>> from_wire(const WireBytes* order) {
  if (!order) return std::optional<SignedOrder>();
  auto read = decode_order({reinterpret_cast<const std::byte*>(order->data()), order->size()});
  if (!read) return read.error();
  return std::optional(*read);
}

wire::view::History to_wire(const HistoryId& history) {
  return {history.mark, history.turn};
}

flatbuffers::Offset<wire::view::Floor> to_wire(flatbuffers::FlatBufferBuilder& builder,
                                               const Floor& floor) {
  const auto holders = builder.CreateVectorOfStructs(to_wire(floor.holders));
  const auto history = to_wire(floor.name.history);
  return wire::view::CreateFloor(builder, &history, floor.name.step, holders);
}

HistoryId from_wire(const wire::view::History* history) {
  return history ? HistoryId{history->turn(), history->mark()} : HistoryId{};
}

Result<Floor> from_wire(const wire::view::Floor* wire) {
  Floor floor;
  if (!wire) return floor;
  floor.name = {from_wire(wire->history()), wire->step()};
  auto holders = from_wire(wire->holders());
  if (!holders) return holders.error();
  floor.holders = std::move(*holders);
  return floor;
}

Digest from_wire(const wire::view::Digest* digest) {
  return digest ? Digest{digest->high(), digest->low()} : Digest{};
}

NodeId from_wire(const wire::view::NodeId* node) {
  NodeId result;
  if (node) std::memcpy(result.value.data(), node->value()->Data(), result.value.size());
  return result;
}

Ballot from_wire(const wire::view::Ballot* ballot) {
  return ballot ? Ballot{ballot->round(), from_wire(&ballot->proposer())} : Ballot{};
}

Result<std::vector<NodeId>> from_wire(const flatbuffers::Vector<const wire::view::NodeId*>* nodes) {
  std::vector<NodeId> result;
  if (!nodes) return result;
  if (nodes->size() > kMaxMembers) return corrupted("too many nodes");
  for (const wire::view::NodeId* node : *nodes) result.push_back(from_wire(node));
  return result;
}

Result<View> from_wire(const wire::view::View* wire) {
  if (!wire) return corrupted("absent");
  View view;
  view.job = from_wire(wire->job());
  view.met = wire->met();
  view.met_step = wire->met_step();
  view.view_id = wire->view_id();
  view.previous = from_wire(wire->previous());
  if (wire->members()) {
    if (wire->members()->size() > kMaxMembers) return corrupted("too many members");
    if (!lies_aligned(wire->members())) return corrupted("misplaced members");
    for (const wire::view::Member* member : *wire->members())
      view.members.push_back({from_wire(&member->node()), member->boot()});
  }
  auto acceptors = from_wire(wire->acceptors());
  auto sources = from_wire(wire->sync_sources());
  if (!acceptors) return acceptors.error();
  if (!sources) return sources.error();
  view.acceptors = std::move(*acceptors);
  view.sync_sources = std::move(*sources);
  view.tie = from_wire(wire->tie());
  view.base_step = wire->base_step();
  view.state_digest = from_wire(wire->state_digest());
  view.result_digest = from_wire(wire->result_digest());
  if (wire->plan()) {
    if (wire->plan()->size() > kMaxSlices) return corrupted("too many slices");
    view.plan.assign(wire->plan()->begin(), wire->plan()->end());
  }
  if (wire->paces()) {
    if (wire->paces()->size() > kMaxMembers + 1) return corrupted("too many paces");
    if (!lies_aligned(wire->paces())) return corrupted("misplaced paces");
    view.paces.assign(wire->paces()->begin(), wire->paces()->end());
  }
  view.owner_rotation = wire->owner_rotation();
  view.fingerprint = from_wire(wire->fingerprint());
  view.restores = wire->restores();
  view.disagreed_step = wire->disagreed_step();
  view.stopped = wire->stopped();
  view.left_out = wire->left_out();
  auto order = from_wire(wire->order());
  if (!order) return order.error();
  view.order = *order;
  if (wire->turns()) {
    if (wire->turns()->size() > kMaxTurns) return corrupted("too many histories");
    if (!lies_aligned(wire->turns())) return corrupted("misplaced histories");
    for (const wire::view::Turn* turn : *wire->turns()) {
      if (turn->kind() > static_cast<std::uint8_t>(Turn::Kind::ordered))
        return corrupted("a history that this version does not know");
      view.turns.push_back({turn->view_id(), turn->base_step(), turn->mark(),
                            static_cast<Turn::Kind>(turn->kind())});
    }
  }
  auto floor = from_wire(wire->floor());
  if (!floor) return floor.error();
  view.floor = std::move(*floor);
  auto put_out = from_wire(wire->put_out());
  if (!put_out) return put_out.error();
  view.put_out = std::move(*put_out);
  return checked(std::move(view));
}

wire::view::Signature to_wire(const Signature& signature) {
  std::array<std::uint8_t, 96> value;
  std::memcpy(value.data(), signature.data(), value.size());
  return wire::view::Signature(flatbuffers::span<const std::uint8_t, 96>(value.data(), 96));
}

Signature from_wire(const wire::view::Signature* signature) {
  Signature result{};
  if (signature) std::memcpy(result.data(), signature->value()->Data(), result.size());
  return result;
}

flatbuffers::Offset<WireChain> to_wire(flatbuffers::FlatBufferBuilder& builder,
                                       const ViewChain& chain) {
  std::vector<flatbuffers::Offset<wire::view::DecidedView>> links;
  for (const DecidedView& one : chain) {
    const auto view_at = to_wire(builder, one.view);
    const auto voters_at = builder.CreateVectorOfStructs(to_wire(one.voters));
    std::vector<wire::view::Seal> seals;
    for (const Seal& seal : one.seals)
      seals.emplace_back(to_wire(seal.node), to_wire(seal.signature));
    const auto seals_at = builder.CreateVectorOfStructs(seals);
    const auto ballot = to_wire(one.ballot);
    const auto tie = to_wire(one.tie);
    const auto proof_at = to_wire(builder, one.proof, one.view);
    links.push_back(wire::view::CreateDecidedView(builder, view_at, &ballot, voters_at, &tie,
                                                  seals_at, proof_at));
  }
  return builder.CreateVector(links);
}

namespace {

// About what it takes on the wire without its seals, and never more.
std::size_t wire_bytes(const DecidedView& decided) {
  return decided.view.list_bytes() + decided.voters.size() * sizeof(wire::view::NodeId);
}

}  // namespace

Result<ViewChain> from_wire(const WireChain* chain, std::size_t bytes) {
  ViewChain links;
  if (!chain) return links;
  WireBudget budget(bytes);
  if (chain->size() > kMaxLinks) return corrupted("too many views");
  ProofBudget in_proofs(bytes);
  for (const wire::view::DecidedView* one : *chain) {
    auto view = from_wire(one->view());
    if (!view) return view.error();
    auto voters = from_wire(one->voters());
    if (!voters) return voters.error();
    if (view->view_id == 0) return corrupted("a proof of view 0");
    auto proof = from_wire(one->proof(), *view, in_proofs);
    if (!proof) return proof.error();
    links.push_back({std::move(*view),
                     from_wire(one->ballot()),
                     std::move(*voters),
                     from_wire(one->tie()),
                     {},
                     std::move(*proof)});
    const std::size_t seals = one->seals() ? one->seals()->size() : 0;
    if (seals > kMaxMembers) return corrupted("too many signatures");
    if (!budget.take(wire_bytes(links.back()) + seals * sizeof(wire::view::Seal)))
      return corrupted("views that lie in one another");
    if (!one->seals()) continue;
    for (const wire::view::Seal* seal : *one->seals())
      links.back().seals.push_back({from_wire(&seal->node()), from_wire(&seal->signature())});
  }
  return links;
}

namespace {

Bytes encode(const Votes& votes) {
  flatbuffers::FlatBufferBuilder builder;
  const auto view_at = to_wire(builder, votes.view);
  const auto chain_at = to_wire(builder, votes.chain);
  flatbuffers::Offset<wire::view::View> accepted_at;
  flatbuffers::Offset<wire::view::Proof> proof_at;
  if (votes.accepted) {
    accepted_at = to_wire(builder, votes.accepted->view);
    proof_at = to_wire(builder, votes.accepted->proof, votes.accepted->view);
  }
  const auto floor_at = to_wire(builder, votes.floor);
  const auto promised = to_wire(votes.promised);
  const auto accepted = to_wire(votes.accepted ? votes.accepted->ballot : Ballot{});
  wire::view::VotesBuilder table(builder);
  table.add_view(view_at);
  table.add_chain(chain_at);
  table.add_floor(floor_at);
  table.add_promised(&promised);
  if (votes.accepted) {
    table.add_accepted_ballot(&accepted);
    table.add_accepted(accepted_at);
    table.add_accepted_proof(proof_at);
  }
  wire::view::FinishVotesBuffer(builder, table.Finish());
  const auto* data = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  Bytes bytes(data, data + builder.GetSize());
  const Digest check = digest_of(bytes);
  bytes.resize(bytes.size() + sizeof check);
  std::memcpy(bytes.data() + bytes.size() - sizeof check, &check, sizeof check);
  return bytes;
}

}  // namespace

// What no restart would read is not written: proofs in the chain are needed for forks alone. What is
// short passes every limit of a reader.
Bytes encode_votes(const Votes& votes) {
  constexpr std::size_t kShort = 64u << 10;
  Bytes bytes = encode(votes);
  if (bytes.size() <= kShort || decode_votes(bytes)) return bytes;
  Votes less = votes;
  bound_proofs(less.chain, 0);
  return encode(less);
}

Result<Votes> decode_votes(ByteView bytes) {
  Digest check;
  if (bytes.size() < 16 + sizeof check)
    return Error{ErrorCode::corrupted, "the vote file is cut short"};
  const Bytes aligned = to_bytes(bytes.first(bytes.size() - sizeof check));
  std::memcpy(&check, bytes.data() + aligned.size(), sizeof check);
  if (check != digest_of(aligned))
    return Error{ErrorCode::corrupted, "the vote file does not match its checksum"};
  const auto* data = reinterpret_cast<const std::uint8_t*>(aligned.data());
  flatbuffers::Verifier verifier(data, aligned.size(), 10, kMaxTables);
  if (!wire::view::VerifyVotesBuffer(verifier))
    return Error{ErrorCode::corrupted, "the vote file is not one of gpunode's"};
  const wire::view::Votes* wire = wire::view::GetVotes(data);
  Votes votes;
  auto view = from_wire(wire->view());
  if (!view) return view.error();
  votes.view = std::move(*view);
  auto chain = from_wire(wire->chain(), bytes.size());
  if (!chain) return chain.error();
  votes.chain = std::move(*chain);
  const bool proven =
      votes.chain.empty() ? votes.view.view_id == 0 : votes.chain.back().view == votes.view;
  if (!proven)
    return Error{ErrorCode::corrupted,
                 "the vote file has no proof of its view: it is of gpunode "
                 "0.1, whose jobs have to end there"};
  votes.promised = from_wire(wire->promised());
  auto floor = from_wire(wire->floor());
  if (!floor) return floor.error();
  votes.floor = std::move(*floor);
  if (wire->accepted()) {
    auto accepted = from_wire(wire->accepted());
    if (!accepted) return accepted.error();
    ProofBudget budget(bytes.size());
    auto proof = from_wire(wire->accepted_proof(), *accepted, budget);
    if (!proof) return proof.error();
    votes.accepted =
        AcceptedView{from_wire(wire->accepted_ballot()), std::move(*accepted), std::move(*proof)};
  }
  return votes;
}

}  // namespace gpunode::view
