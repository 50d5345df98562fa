// What goes between two members follows from plan, tree and chunk layout, which all know alike: both
// sides list it by round, then by node, then by chunk.
#include "actors/compute/group_sum.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <utility>

#include "kernels/model/model.hpp"

namespace gpunode::compute {

using collective::TreeNode;

namespace {

constexpr std::size_t kAlignment = 256;
// What a member tells of its sums: the step, the plan's digest, what was fed. Eight words.
constexpr std::size_t kNoteBytes = 64;
using Note = std::array<std::uint64_t, kNoteBytes / sizeof(std::uint64_t)>;

}  // namespace

// Where everything lies in the region, in bytes from its beginning.
struct GroupSum::Places {
  Places(const job::Carry& given, const collective::Tree& tree, std::size_t elements)
      : step_is(given), layout(collective::ChunkLayout::of(elements)) {
    for (std::uint16_t rank = 0; rank < given.member_count; ++rank)
      notes.push_back(take(kNoteBytes));
    for (std::uint32_t chunk = 0; chunk < layout.chunk_count(); ++chunk)
      if (owner_of(chunk) == given.rank) owned.push_back(chunk);
    for (std::uint16_t rank = 0; rank < given.member_count; ++rank) {
      std::vector<TreeNode> nodes = tree.cover(given.plan.slices_of(rank));
      std::ranges::sort(nodes);
      if (rank == given.rank)
        for (TreeNode node : nodes) own[node] = take(elements * sizeof(float));
      else
        for (TreeNode node : nodes)
          for (std::uint32_t chunk : owned) received[{rank, node, chunk}] = take(bytes_of(chunk));
    }
    result = take(elements * sizeof(float));
    station = std::move(collective::SumStation::of(nullptr, tree, given.plan, given.member_count,
                                                   given.rank)[given.rank]);
  }

  std::uint16_t owner_of(std::uint32_t chunk) const {
    return collective::owner_of_chunk(chunk, step_is.owner_rotation, step_is.member_count);
  }
  std::size_t bytes_of(std::uint32_t chunk) const { return layout.size(chunk) * sizeof(float); }
  std::size_t offset_of(std::uint32_t chunk) const { return layout.first(chunk) * sizeof(float); }
  // Of a chunk owned here, what the station takes in as `input`.
  const float* input(std::uint32_t chunk, const collective::SumStation::Input& input) const {
    const std::size_t at = input.rank == step_is.rank
                               ? own.at(input.node) + offset_of(chunk)
                               : received.at({input.rank, input.node, chunk});
    return reinterpret_cast<const float*>(region + at);
  }

  using Spans = std::vector<ops::MovedSpan>;
  void list_partials(Spans& sends, Spans& receives) const {
    for (std::uint16_t rank = 0; rank < step_is.member_count; ++rank) {
      if (rank == step_is.rank) continue;
      sends.push_back({rank, notes[step_is.rank], kNoteBytes});
      receives.push_back({rank, notes[rank], kNoteBytes});
    }
    for (const auto& [node, at] : own)
      for (std::uint32_t chunk = 0; chunk < layout.chunk_count(); ++chunk)
        if (owner_of(chunk) != step_is.rank)
          sends.push_back({owner_of(chunk), at + offset_of(chunk), bytes_of(chunk)});
    for (const auto& [from, at] : received)
      receives.push_back({std::get<0>(from), at, bytes_of(std::get<2>(from))});
  }
  void list_results(Spans& sends, Spans& receives) const {
    for (std::uint32_t chunk = 0; chunk < layout.chunk_count(); ++chunk) {
      const std::uint16_t owner = owner_of(chunk);
      const std::size_t at = result + offset_of(chunk);
      if (owner != step_is.rank) receives.push_back({owner, at, bytes_of(chunk)});
      for (std::uint16_t rank = 0; owner == step_is.rank && rank < step_is.member_count; ++rank)
        if (rank != owner) sends.push_back({rank, at, bytes_of(chunk)});
    }
  }

  const job::Carry& step_is;
  collective::ChunkLayout layout;
  collective::SumStation station;  // this member's, of its own chunks
  std::vector<std::size_t> notes;  // by rank
  std::vector<std::uint32_t> owned;
  std::map<TreeNode, std::size_t> own;
  std::map<std::tuple<std::uint16_t, TreeNode, std::uint32_t>, std::size_t> received;
  std::size_t result = 0, size = 0;
  std::byte* region = nullptr;

 private:
  std::size_t take(std::size_t bytes) {
    return std::exchange(size, size + (bytes + kAlignment - 1) / kAlignment * kAlignment);
  }
};

Result<GroupTotal> GroupSum::run(const job::Carry& step_is, std::uint64_t step,
                                 const collective::Tree& tree, std::span<const NodeSum> own,
                                 std::shared_ptr<std::vector<float>> host) {
  Places places(step_is, tree, host->size());
  auto region = group_.region(places.size);
  if (!region) return region.error();
  places.region = *region;
  const Time deadline = clock_.now() + step_is.timeout;  // of both moves
  auto done = use_.run([&] { return put(places, step, own); });
  const auto move = [&](void (Places::*list)(Places::Spans&, Places::Spans&) const) {
    Places::Spans sends, receives;
    (places.*list)(sends, receives);
    const Duration left = std::max(deadline - clock_.now(), Duration::zero());
    return group_.move(sends, receives, std::chrono::ceil<std::chrono::milliseconds>(left));
  };
  if (done) done = move(&Places::list_partials);
  if (!done) return done.error();
  auto data_fingerprint = use_.run([&] { return read_notes(places, step); });
  if (!data_fingerprint) return data_fingerprint.error();
  done = use_.run([&] { return add(places); });
  if (done) done = move(&Places::list_results);
  if (!done) return done.error();
  auto sum = use_.run([&] { return take(places, std::move(host)); });
  if (!sum) return sum.error();
  return GroupTotal{*std::move(sum), *data_fingerprint};
}

// Own sums and the note, into the region.
Result<void> GroupSum::put(const Places& places, std::uint64_t step, std::span<const NodeSum> own) {
  const Digest plan = places.step_is.plan.digest();
  Note note = {step, plan.high, plan.low};
  collective::DataFingerprint fed;
  for (const NodeSum& one : own) {
    const auto at = places.own.find(one.node);
    if (at == places.own.end())
      return {ErrorCode::internal, "a sum that is not of this member's cover"};
    fed += one.data_fingerprint;
    auto here = device_.adopt(0, one.sum);
    if (!here) return here.error();
    const std::size_t count = (*here)->host->size() - model::kTailElements;
    auto* place = reinterpret_cast<float*>(places.region + at->second);
    auto done = device_.copy(0, (*here)->place(), place, count * sizeof(float));
    if (done) done = device_.to_device(0, std::span(*(*here)->host).subspan(count), place + count);
    if (!done) return done;
  }
  note[3] = fed.hash_sum.high;
  note[4] = fed.hash_sum.low;
  note[5] = fed.sample_count;
  return device_.write(0, std::as_bytes(std::span(note)),
                       places.region + places.notes[places.step_is.rank]);
}

// What all members together were fed, if all are about this step.
Result<collective::DataFingerprint> GroupSum::read_notes(const Places& places, std::uint64_t step) {
  const Digest plan = places.step_is.plan.digest();
  collective::DataFingerprint all;
  for (std::uint16_t rank = 0; rank < places.notes.size(); ++rank) {
    Note note{};
    auto done = device_.read(0, places.region + places.notes[rank],
                             std::as_writable_bytes(std::span(note)));
    if (!done) return done.error();
    if (note[0] != step || Digest{note[1], note[2]} != plan)
      return Error{ErrorCode::unavailable,
                   "the device of rank " + std::to_string(rank) + " has sent sums of another step"};
    all += collective::DataFingerprint{{note[3], note[4]}, note[5]};
  }
  return all;
}

Result<void> GroupSum::add(const Places& places) {
  std::mutex mutex;
  Result<void> first;
  workers_.run(places.owned.size(), [&](int worker, std::size_t index) {
    const std::uint32_t chunk = places.owned[index];
    std::vector<const float*> inputs;
    for (const collective::SumStation::Input& input : places.station.inputs)
      inputs.push_back(places.input(chunk, input));
    auto* out = reinterpret_cast<float*>(places.region + places.result + places.offset_of(chunk));
    auto done = device_.sum(worker, places.station.outputs.front().program, inputs, out,
                            places.layout.size(chunk));
    std::lock_guard lock(mutex);
    if (first) first = done;
  });
  return first;
}

Result<SharedSum> GroupSum::take(const Places& places, std::shared_ptr<std::vector<float>> host) {
  const std::size_t count = host->size() - model::kTailElements;
  auto sum = device_.make_sum(std::move(host), count);
  if (!sum) return sum;
  const auto* from = reinterpret_cast<const float*>(places.region + places.result);
  auto done = device_.copy(0, from, (*sum)->place(), count * sizeof(float));
  if (done) done = device_.to_host(0, from + count, std::span(*(*sum)->host).subspan(count));
  if (!done) return done.error();
  return sum;
}

}  // namespace gpunode::compute
