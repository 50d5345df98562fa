#include "actors/job/job_history_codec.hpp"

#include <utility>
#include <vector>

#include "runtime/base/aligned_copy.hpp"
#include "runtime/base/wire_vector.hpp"
#include "schemas/history_generated.h"

namespace gpunode::jobs {

namespace wire = gpunode::wire::history;

namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

constexpr std::size_t kMaxBytes = 16u << 20;
constexpr std::size_t kMaxNodes = 4096;
constexpr std::uint64_t kMaxCount = std::uint64_t{1} << 53;
// Microseconds since 1970, of which differences fit into 64 bits of nanoseconds: 1938 to 2191.
constexpr std::int64_t kFirstTime = -1'000'000'000'000'000, kLastTime = 7'000'000'000'000'000;
constexpr std::size_t kIdBytes = sizeof(NodeId::value);

Error corrupted() {
  return {ErrorCode::corrupted, "not the history of a job"};
}

bool is_a_time(std::int64_t microseconds) {
  return microseconds >= kFirstTime && microseconds <= kLastTime;
}

Offset<wire::Slices> to_wire(FlatBufferBuilder& out, const SliceCounts& slices) {
  std::vector<std::uint8_t> nodes;
  std::vector<std::uint64_t> counts;
  for (const auto& [node, count] : slices) {
    const auto* id = reinterpret_cast<const std::uint8_t*>(node.value.data());
    nodes.insert(nodes.end(), id, id + kIdBytes);
    counts.push_back(count);
  }
  return wire::CreateSlices(out, out.CreateVector(nodes), out.CreateVector(counts));
}

wire::Commit to_wire(const JobHistory::Commit& one, const WallTimes& times, std::uint32_t place) {
  return {times.microseconds(one.time),
          one.step,
          one.view_id,
          one.state.high,
          one.state.low,
          one.running.hash_sum.high,
          one.running.hash_sum.low,
          one.running.sample_count,
          one.loss.value_or(0),
          place,
          one.loss.has_value(),
          one.skipped};
}

Result<SliceCounts> from_wire(const wire::Slices* from) {
  SliceCounts slices;
  if (!from || !from->nodes() || !from->counts()) return slices;
  const std::size_t count = from->counts()->size();
  if (count > kMaxNodes || from->nodes()->size() != count * kIdBytes ||
      !lies_aligned(from->counts()))
    return corrupted();
  const auto* ids = reinterpret_cast<const std::byte*>(from->nodes()->data());
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t one = from->counts()->Get(static_cast<flatbuffers::uoffset_t>(i));
    if (one == 0 || one > kMaxCount) return corrupted();
    slices[*NodeId::from({ids + i * kIdBytes, kIdBytes})] = one;
  }
  if (slices.size() != count) return corrupted();
  return slices;
}

// Of a flatbuffer that is verified: the places of commits and the sums are not.
class Reader {
 public:
  Reader(const wire::History& from, std::size_t bytes, const WallTimes& times)
      : from_(from), budget_(bytes), times_(times) {}

  Result<JobHistory> read() {
    auto all = from_wire(from_.slices());
    if (!all) return all.error();
    if (auto read = read_computed(); !read) return read.error();
    if (auto read = read_commits(); !read) return read.error();
    if (from_.before() && !is_a_time(from_.before()->at())) return corrupted();
    const Commit before = from_.before() ? commit_of(*from_.before()) : Commit{};
    // What the commits do not tell was computed before them.
    std::uint64_t skipped = from_.skipped();
    if (skipped > kMaxCount) return corrupted();
    for (const Commit& one : commits_) {
      if (one.skipped && skipped-- == 0) return corrupted();
      if (!one.computed) continue;
      for (const auto& [node, count] : *one.computed) {
        const auto found = all->find(node);
        if (found == all->end() || found->second < count) return corrupted();
        if ((found->second -= count) == 0) all->erase(found);
      }
    }
    if (before.step + 1 == from_.first() && (skipped > 0 || !all->empty())) return corrupted();
    JobHistory out;
    if (!out.begin_at(from_.first(), before, std::move(*all), skipped)) return corrupted();
    for (Commit& one : commits_) {
      if (one.step != out.newest().step + 1) return corrupted();
      out.add(std::move(one));
    }
    return out;
  }

 private:
  using Commit = JobHistory::Commit;

  Commit commit_of(const wire::Commit& one) const {
    Commit out;
    out.time = times_.time(one.at());
    out.step = one.step();
    out.view_id = one.view_id();
    out.state = {one.state_high(), one.state_low()};
    out.running = {{one.fed_high(), one.fed_low()}, one.samples()};
    if (one.has_loss()) out.loss = one.loss();
    out.skipped = one.skipped();
    return out;
  }

  Result<void> read_computed() {
    if (!from_.computed()) return {};
    if (from_.computed()->size() > JobHistory::kCommitsKept) return corrupted();
    for (const wire::Slices* one : *from_.computed()) {
      auto slices = from_wire(one);
      if (!slices) return slices.error();
      if (!budget_.take(slices->size() * (kIdBytes + sizeof(std::uint64_t)))) return corrupted();
      computed_.push_back(std::make_shared<const SliceCounts>(std::move(*slices)));
    }
    return {};
  }

  Result<void> read_commits() {
    if (!from_.commits()) return {};
    if (from_.commits()->size() > JobHistory::kCommitsKept || !lies_aligned(from_.commits()))
      return corrupted();
    for (const wire::Commit* one : *from_.commits()) {
      if (one->step() == 0 || one->computed() >= computed_.size() || !is_a_time(one->at()))
        return corrupted();
      Commit& commit = commits_.emplace_back(commit_of(*one));
      commit.computed = computed_[one->computed()];
    }
    return {};
  }

  const wire::History& from_;
  WireBudget budget_;
  const WallTimes& times_;
  std::vector<std::shared_ptr<const SliceCounts>> computed_;
  std::vector<Commit> commits_;
};

}  // namespace

Bytes encode_history(JobHistory history, std::uint64_t up_to, const WallTimes& times,
                     const NodeId& self) {
  history.undo_to(up_to);
  FlatBufferBuilder out(1 << 16);
  std::vector<Offset<wire::Slices>> computed;
  std::vector<wire::Commit> commits;
  std::map<const SliceCounts*, std::uint32_t> places;
  static const SliceCounts kNobody;
  for (const JobHistory::Commit& one : history.commits()) {
    const SliceCounts& slices = one.computed ? *one.computed : kNobody;
    const auto [place, is_new] =
        places.try_emplace(&slices, static_cast<std::uint32_t>(computed.size()));
    if (is_new) computed.push_back(to_wire(out, slices));
    commits.push_back(to_wire(one, times, place->second));
  }
  std::vector<Offset<wire::Event>> events;
  for (const JobHistory::Event& one : history.events()) {
    const NodeId& by = one.by == NodeId{} ? self : one.by;
    const auto* id = reinterpret_cast<const std::uint8_t*>(by.value.data());
    events.push_back(wire::CreateEvent(out, times.microseconds(one.time),
                                       out.CreateString(one.text), out.CreateVector(id, kIdBytes)));
  }
  const auto slices = to_wire(out, history.slices());
  const auto kept = out.CreateVectorOfStructs(commits);
  const auto by = out.CreateVector(computed);
  const auto noted = out.CreateVector(events);
  const wire::Commit before = to_wire(history.before(), times, 0);
  out.Finish(wire::CreateHistory(out, history.first(), &before, slices, history.skipped(), kept, by,
                                 noted),
             wire::HistoryIdentifier());
  return finished_bytes(out);
}

Result<JobHistory> decode_history(ByteView bytes, const WallTimes& times, const NodeId& self) {
  if (bytes.size() > kMaxBytes || bytes.size() < 8) return corrupted();
  AlignedCopy copy(bytes);
  flatbuffers::Verifier verifier(copy.data(), copy.size(), 8, 100'000);
  if (!wire::VerifyHistoryBuffer(verifier)) return corrupted();
  const wire::History* from = wire::GetHistory(copy.data());
  auto history = Reader(*from, bytes.size(), times).read();
  if (!history || !from->events()) return history;
  if (from->events()->size() > JobHistory::kEventsKept) return corrupted();
  WireBudget texts(bytes.size());
  for (const wire::Event* one : *from->events()) {
    const auto by = one->by() ? NodeId::from({reinterpret_cast<const std::byte*>(one->by()->data()),
                                              one->by()->size()})
                              : std::nullopt;
    if (!by || !is_a_time(one->at()) || !texts.take(one->text() ? one->text()->size() : 0))
      return corrupted();
    history->add_event(
        {times.time(one->at()), flatbuffers::GetString(one->text()), *by == self ? NodeId{} : *by});
  }
  return history;
}

}  // namespace gpunode::jobs
