// Proofs of proposals to FlatBuffers and back. What most promisers of a level tell alike is written
// once.
#include <algorithm>
#include <utility>

#include "runtime/base/wire_vector.hpp"
#include "runtime/view/view_fields_codec.hpp"

namespace gpunode::view {

namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

Error corrupted(const std::string& what) {
  return {ErrorCode::corrupted, "proof of a view: " + what};
}

constexpr flatbuffers::uoffset_t kMostLevels = 256;

using Pacing = std::pair<std::vector<std::uint16_t>, std::vector<std::uint64_t>>;
using Nodes = std::vector<NodeId>;

// Its place among those that are written once.
template <class T>
std::uint16_t shared(std::vector<T>& all, T one) {
  const auto at = static_cast<std::size_t>(std::find(all.begin(), all.end(), one) - all.begin());
  if (at == all.size()) all.push_back(std::move(one));
  return static_cast<std::uint16_t>(at);
}

Offset<wire::view::Level> write(FlatBufferBuilder& out, const Level& level, const View& next) {
  std::vector<Pacing> pacings;
  std::vector<Nodes> lists;
  std::vector<Offset<wire::view::Told>> promises;
  for (const Told& one : level.promises) {
    Standing where = one.standing;
    const auto pacing =
        shared(pacings, Pacing{std::exchange(where.plan, {}), std::exchange(where.paces, {})});
    const auto unreachable = shared(lists, std::exchange(where.unreachable, {}));
    const auto learners = shared(lists, std::exchange(where.learners, {}));
    const auto holders = shared(lists, std::exchange(where.floor.holders, {}));
    const auto standing = to_wire(out, where);
    Offset<wire::view::View> accepted;
    if (one.accepted && one.accepted->view != next) accepted = to_wire(out, one.accepted->view);
    const auto node = to_wire(one.node);
    const auto ballot = to_wire(one.accepted ? one.accepted->ballot : Ballot{});
    const auto signature = to_wire(one.signature);
    promises.push_back(wire::view::CreateTold(out, &node, one.accepted ? &ballot : nullptr,
                                              accepted, standing, pacing, unreachable, learners,
                                              holders, &signature));
  }
  std::vector<Offset<wire::view::Pacing>> pacings_out;
  for (const auto& [plan, paces] : pacings) {
    const auto plan_at = out.CreateVector(plan);
    pacings_out.push_back(wire::view::CreatePacing(out, plan_at, out.CreateVector(paces)));
  }
  std::vector<Offset<wire::view::NodeList>> lists_out;
  for (const Nodes& nodes : lists)
    lists_out.push_back(wire::view::CreateNodeList(out, out.CreateVectorOfStructs(to_wire(nodes))));
  const auto promises_at = out.CreateVector(promises);
  const auto pacings_at = out.CreateVector(pacings_out);
  const auto lists_at = out.CreateVector(lists_out);
  const auto ballot = to_wire(level.ballot);
  return wire::view::CreateLevel(out, &ballot, promises_at, pacings_at, lists_at);
}

// Reads one level after the other, and counts what it makes of them.
class Reader {
 public:
  Reader(const View& next, ProofBudget& budget) : next_(next), budget_(budget) {}

  Result<Level> level(const wire::view::Level& from) {
    Level level{from_wire(from.ballot()), {}};
    const std::size_t count = from.promises() ? from.promises()->size() : 0;
    if (count == 0 || count > kMaxMembers) return corrupted("nobody, or too many, promise");
    for (const wire::view::Told* one : *from.promises()) {
      auto told = promise(*one, from);
      if (!told) return told.error();
      level.promises.push_back(std::move(*told));
      // What is written once is many times as much in memory.
      if (budget_.in_memory > kMostProofBytes) return corrupted("too much is promised");
    }
    return level;
  }

 private:
  Result<Nodes> nodes_at(const wire::view::Level& level, std::uint16_t at) {
    if (!level.lists() || at >= level.lists()->size()) return corrupted("no such list");
    return from_wire(level.lists()->Get(at)->nodes());
  }

  Result<void> read_pacing(const wire::view::Level& level, std::uint16_t at, Standing& where) {
    if (!level.pacings() || at >= level.pacings()->size()) return corrupted("no such plan");
    const wire::view::Pacing& pacing = *level.pacings()->Get(at);
    if (pacing.plan()) {
      if (pacing.plan()->size() > kMaxSlices) return corrupted("a plan of too many slices");
      where.plan.assign(pacing.plan()->begin(), pacing.plan()->end());
    }
    if (pacing.paces()) {
      if (pacing.paces()->size() > kMaxMembers + 1) return corrupted("too many paces");
      if (!lies_aligned(pacing.paces())) return corrupted("misplaced paces");
      where.paces.assign(pacing.paces()->begin(), pacing.paces()->end());
    }
    return {};
  }

  Result<Told> promise(const wire::view::Told& from, const wire::view::Level& level) {
    auto standing = from_wire(from.standing());
    if (!standing) return standing.error();
    Told told{from_wire(from.node()), {}, std::move(*standing), from_wire(from.signature())};
    if (auto read = read_pacing(level, from.pacing(), told.standing); !read) return read.error();
    for (const auto& [list, at] : {std::pair(&told.standing.unreachable, from.unreachable()),
                                   std::pair(&told.standing.learners, from.learners()),
                                   std::pair(&told.standing.floor.holders, from.floor_holders())}) {
      auto nodes = nodes_at(level, at);
      if (!nodes) return nodes.error();
      *list = std::move(*nodes);
    }
    if (from.accepted_ballot()) {
      auto view = from.accepted() ? from_wire(from.accepted()) : Result<View>(next_);
      if (!view) return view.error();
      if (from.accepted() && !budget_.sent.take(view->list_bytes()))
        return corrupted("views that lie in one another");
      told.accepted = Claim{from_wire(from.accepted_ballot()), std::move(*view)};
    }
    budget_.in_memory += bytes_of(told);
    return told;
  }

  const View& next_;
  ProofBudget& budget_;
};

}  // namespace

Offset<wire::view::Proof> to_wire(FlatBufferBuilder& builder, const Proof& proof, const View& next,
                                  bool with_left_out) {
  std::vector<Offset<wire::view::Level>> levels, left_out;
  for (const Level& one : proof.levels) levels.push_back(write(builder, one, next));
  if (with_left_out)
    for (const Level& one : proof.left_out) left_out.push_back(write(builder, one, next));
  std::vector<Offset<wire::view::Joining>> joining;
  for (const Joining& one : proof.hearsay.joining) {
    const auto node = to_wire(one.member.node);
    const auto checkpoint = to_wire(one.checkpoint, one.checkpoint_digest);
    joining.push_back(wire::view::CreateJoining(builder, &node, one.member.boot, one.ready,
                                                one.had_part, &checkpoint));
  }
  const auto levels_at = builder.CreateVector(levels);
  const auto left_out_at = builder.CreateVector(left_out);
  const auto witnesses_at = builder.CreateVectorOfStructs(to_wire(proof.hearsay.witnesses));
  const auto joining_at = builder.CreateVector(joining);
  const auto barred_at = builder.CreateVectorOfStructs(to_wire(proof.hearsay.barred));
  return wire::view::CreateProof(builder, levels_at, witnesses_at, joining_at, barred_at,
                                 left_out_at);
}

Result<Proof> from_wire(const wire::view::Proof* from, const View& next, ProofBudget& budget) {
  Proof proof;
  if (!from) return proof;
  Reader reader(next, budget);
  for (const auto& [to, all] :
       {std::pair(&proof.levels, from->levels()), std::pair(&proof.left_out, from->left_out())}) {
    if (!all) continue;
    if (all->size() > kMostLevels) return corrupted("too many ballots");
    for (const wire::view::Level* one : *all) {
      auto level = reader.level(*one);
      if (!level) return level.error();
      to->push_back(std::move(*level));
    }
  }
  auto witnesses = from_wire(from->witnesses());
  if (!witnesses) return witnesses.error();
  auto barred = from_wire(from->barred());
  if (!barred) return barred.error();
  proof.hearsay.witnesses = std::move(*witnesses);
  proof.hearsay.barred = std::move(*barred);
  if (!from->joining()) return proof;
  if (from->joining()->size() > kMaxMembers) return corrupted("too many that ask to come in");
  for (const wire::view::Joining* one : *from->joining())
    proof.hearsay.joining.push_back({{from_wire(one->node()), one->boot()},
                                     one->ready(),
                                     name_from_wire(one->checkpoint()),
                                     digest_from_wire(one->checkpoint()),
                                     one->had_part()});
  return proof;
}

}  // namespace gpunode::view
