#include "runtime/collective/exact_exchange.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

namespace gpunode::collective {

static_assert(std::endian::native == std::endian::little, "payloads are little-endian floats");

namespace {

constexpr int kMostPatience = 8;  // times need_after between two NEEDs to a silent peer

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

void append(Bytes& bytes, std::uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8)
    bytes.push_back(static_cast<std::byte>(value >> shift));
}

}  // namespace

struct ExactExchange::State {
  // A node of some member's cover, and what is known of it here.
  struct CoverNode {
    TreeNode node;
    std::uint16_t rank = 0;
    std::optional<Fed> fed;
    SharedFloats own;  // this member's partial sum; kept for NEEDs
  };
  // One partial of a chunk that this member owns; freed once the chunk is summed.
  struct Slot {
    std::shared_ptr<const void> owner;
    const float* values = nullptr;
    bool filled = false;
  };
  struct Chunk {
    std::vector<Slot> slots;  // by cover node; empty if another member owns the chunk
    std::uint32_t missing = 0;
    bool here = false;  // the result is in its place
    Digest digest;
  };
  struct Peer {
    std::uint32_t missing_partials = 0;
    std::uint32_t missing_results = 0;
    std::optional<Done> done;
    Time quiet_since{};
    Duration patience{};
  };

  State(Options given, Time now);

  std::uint16_t owner_of(std::uint32_t chunk) const {
    return static_cast<std::uint16_t>((std::uint64_t{chunk} + options.owner_rotation) %
                                      options.member_count);
  }
  bool lacks_bytes(const Peer& peer) const {
    return peer.missing_partials > 0 || peer.missing_results > 0;
  }
  CoverNode* find(TreeNode node);
  ByteView place_of(std::uint32_t chunk) const {
    return std::as_bytes(std::span(result_values + options.layout.first(chunk),
                                   static_cast<std::size_t>(options.layout.size(chunk))));
  }
  PartialChunk partial_of(const CoverNode& cover_node, std::uint32_t chunk) const;
  ResultChunk result_of(std::uint32_t chunk) const;

  void fill(Time now, std::uint32_t chunk, std::size_t index, Slot slot, std::vector<SendTo>& out);
  void chunk_is_here(std::uint32_t chunk);
  bool adopt(const Fed& total);
  void hold_when_whole(Time now, std::vector<SendTo>& out);
  void compare_dones();
  void heard(Time now, std::uint16_t rank);
  void ask(Time now, std::uint16_t rank, std::vector<SendTo>& out);
  void send_to_others(const ExchangeMessage& message, std::vector<SendTo>& out) const;

  void on(Time now, std::uint16_t from, const PartialChunk& message, std::vector<SendTo>& out);
  void on(Time now, std::uint16_t from, const ResultChunk& message, std::vector<SendTo>& out);
  void on(Time now, std::uint16_t from, const Done& message);
  void on(std::uint16_t from, const Need& message, std::vector<SendTo>& out);
  bool in_order(const std::vector<std::uint32_t>& chunks, std::uint16_t owner) const;

  Options options;
  std::vector<CoverNode> cover;  // of all members, ordered by node; a partition of the root
  SumProgram program;
  std::vector<float> scratch;
  std::vector<Chunk> chunks;
  std::uint32_t results_missing = 0;
  std::shared_ptr<std::vector<float>> buffer;  // null if the result is this member's own partial
  SharedFloats result;                         // the buffer, or that partial
  const float* result_values = nullptr;
  std::optional<Fed> total;
  std::vector<Peer> peers;  // by rank; this member's own entry only keeps its DONE
  std::uint32_t compute_us = 0;
  std::uint64_t dropped = 0;
  bool disagreed = false;
  bool committed = false;
};

ExactExchange::State::State(Options given, Time now) : options(std::move(given)) {
  GPUNODE_CHECK(options.rank < options.member_count, "rank outside the view");
  GPUNODE_CHECK(options.plan.fits(options.tree, options.member_count), "plan of another view");
  GPUNODE_CHECK(options.add != nullptr, "no addition");
  for (std::uint16_t rank = 0; rank < options.member_count; ++rank)
    for (TreeNode node : options.tree.cover(options.plan.slices_of(rank)))
      cover.push_back({node, rank, {}, {}});
  std::sort(cover.begin(), cover.end(),
            [](const CoverNode& a, const CoverNode& b) { return a.node < b.node; });
  std::vector<TreeNode> nodes;
  for (const CoverNode& cover_node : cover) nodes.push_back(cover_node.node);
  program = SumProgram::of(options.tree, options.tree.root(), nodes).value();

  peers.resize(options.member_count, Peer{0, 0, {}, now, options.need_after});
  chunks.resize(options.layout.chunk_count());
  results_missing = options.layout.chunk_count();
  for (std::uint32_t chunk = 0; chunk < chunks.size(); ++chunk) {
    std::uint16_t owner = owner_of(chunk);
    if (owner != options.rank) {
      ++peers[owner].missing_results;
      continue;
    }
    chunks[chunk].slots.resize(cover.size());
    chunks[chunk].missing = static_cast<std::uint32_t>(cover.size());
    for (const CoverNode& cover_node : cover) ++peers[cover_node.rank].missing_partials;
  }
  if (options.member_count == 1) return;  // the result will be the only partial
  buffer = options.result_buffer ? std::move(options.result_buffer)
                                 : std::make_shared<std::vector<float>>();
  buffer->resize(options.layout.element_count);
  result = buffer;
  result_values = buffer->data();
}

ExactExchange::State::CoverNode* ExactExchange::State::find(TreeNode node) {
  auto at = std::lower_bound(cover.begin(), cover.end(), node,
                             [](const CoverNode& a, TreeNode b) { return a.node < b; });
  return at != cover.end() && at->node == node ? &*at : nullptr;
}

PartialChunk ExactExchange::State::partial_of(const CoverNode& cover_node,
                                              std::uint32_t chunk) const {
  ByteView all = std::as_bytes(std::span(*cover_node.own));
  return {chunk,
          cover_node.node,
          *cover_node.fed,
          {cover_node.own, all.subspan(options.layout.first(chunk) * sizeof(float),
                                       options.layout.size(chunk) * sizeof(float))}};
}

ResultChunk ExactExchange::State::result_of(std::uint32_t chunk) const {
  return {chunk, *total, {result, place_of(chunk)}};
}

void ExactExchange::State::send_to_others(const ExchangeMessage& message,
                                          std::vector<SendTo>& out) const {
  for (std::uint32_t step = 1; step < options.member_count; ++step)
    out.push_back(
        {static_cast<std::uint16_t>((options.rank + step) % options.member_count), message});
}

// Puts a partial in its slot of an owned chunk; the last one sums the chunk and sends the result.
void ExactExchange::State::fill(Time now, std::uint32_t chunk, std::size_t index, Slot slot,
                                std::vector<SendTo>& out) {
  Chunk& state = chunks[chunk];
  slot.filled = true;
  state.slots[index] = std::move(slot);
  --peers[cover[index].rank].missing_partials;
  if (--state.missing > 0) return;

  Fed fed;
  for (const CoverNode& cover_node : cover) fed += *cover_node.fed;
  if (!adopt(fed)) return;
  if (buffer) {
    std::vector<const float*> inputs;
    for (const Slot& filled : state.slots) inputs.push_back(filled.values);
    program.run(inputs, buffer->data() + options.layout.first(chunk), options.layout.size(chunk),
                options.add, scratch);
  }
  chunk_is_here(chunk);
  send_to_others(result_of(chunk), out);
  hold_when_whole(now, out);
}

void ExactExchange::State::chunk_is_here(std::uint32_t chunk) {
  Chunk& state = chunks[chunk];
  state.here = true;
  state.slots = {};
  state.digest = digest_of(place_of(chunk));  // now, while it is in the cache
  --results_missing;
}

// All owners must have summed the same samples.
bool ExactExchange::State::adopt(const Fed& fed) {
  if (!total) total = fed;
  if (*total == fed) return true;
  disagreed = true;
  return false;
}

void ExactExchange::State::hold_when_whole(Time now, std::vector<SendTo>& out) {
  std::optional<Done>& own = peers[options.rank].done;
  if (results_missing > 0 || own) return;
  Bytes digests;
  digests.reserve(chunks.size() * 16 + 24);
  for (const Chunk& chunk : chunks) {
    append(digests, chunk.digest.high);
    append(digests, chunk.digest.low);
  }
  append(digests, total->hash_sum.high);
  append(digests, total->hash_sum.low);
  append(digests, total->sample_count);
  own = Done{digest_of(digests), *total, compute_us};
  for (std::uint16_t rank = 0; rank < options.member_count; ++rank) heard(now, rank);
  send_to_others(*own, out);
  compare_dones();
}

void ExactExchange::State::compare_dones() {
  const Done* first = nullptr;
  std::uint32_t known = 0;
  for (const Peer& peer : peers) {
    if (!peer.done) continue;
    ++known;
    if (!first) first = &*peer.done;
    if (peer.done->result != first->result || peer.done->fed != first->fed) disagreed = true;
  }
  if (known == peers.size() && !disagreed) committed = true;
}

void ExactExchange::State::heard(Time now, std::uint16_t rank) {
  peers[rank].quiet_since = now;
  peers[rank].patience = options.need_after;
}

// Asks a peer for all that is missing of it.
void ExactExchange::State::ask(Time now, std::uint16_t rank, std::vector<SendTo>& out) {
  Peer& peer = peers[rank];
  Need need;
  need.done = !peer.done;
  for (std::uint32_t chunk = 0; chunk < chunks.size() && lacks_bytes(peer); ++chunk) {
    const Chunk& state = chunks[chunk];
    if (owner_of(chunk) == rank && !state.here) need.result_chunks.push_back(chunk);
    for (std::size_t index = 0; index < state.slots.size(); ++index) {
      if (cover[index].rank != rank || state.slots[index].filled) continue;
      need.partial_chunks.push_back(chunk);
      break;
    }
  }
  if (need.done || !need.result_chunks.empty() || !need.partial_chunks.empty())
    out.push_back({rank, std::move(need)});
  peer.quiet_since = now;
  peer.patience = std::min(peer.patience * 2, options.need_after * kMostPatience);
}

void ExactExchange::State::on(Time now, std::uint16_t from, const PartialChunk& message,
                              std::vector<SendTo>& out) {
  CoverNode* cover_node = find(message.node);
  bool good = message.chunk < chunks.size() && owner_of(message.chunk) == options.rank &&
              message.payload.size() == options.layout.size(message.chunk) * sizeof(float) &&
              cover_node && cover_node->rank == from &&
              (!cover_node->fed || *cover_node->fed == message.fed);
  if (!good) {
    ++dropped;
    return;
  }
  Chunk& chunk = chunks[message.chunk];
  if (chunk.slots.empty()) return;  // summed already: a duplicate
  std::size_t index = static_cast<std::size_t>(cover_node - cover.data());
  const std::byte* bytes = message.payload.view.data();
  if (const Slot& known = chunk.slots[index]; known.filled) {
    if (message.payload.size() > 0 && std::memcmp(known.values, bytes, message.payload.size()) != 0)
      ++dropped;
    return;
  }
  Slot slot{message.payload.owner, reinterpret_cast<const float*>(bytes), false};
  if (reinterpret_cast<std::uintptr_t>(bytes) % alignof(float) != 0) {
    auto copy = std::make_shared<std::vector<float>>(message.payload.size() / sizeof(float));
    std::memcpy(copy->data(), bytes, message.payload.size());
    slot.values = copy->data();
    slot.owner = std::move(copy);
  }
  cover_node->fed = message.fed;
  heard(now, from);
  fill(now, message.chunk, index, std::move(slot), out);
}

void ExactExchange::State::on(Time now, std::uint16_t from, const ResultChunk& message,
                              std::vector<SendTo>& out) {
  if (message.chunk >= chunks.size() || owner_of(message.chunk) != from ||
      message.payload.size() != options.layout.size(message.chunk) * sizeof(float)) {
    ++dropped;
    return;
  }
  ByteView bytes = message.payload.view;
  Chunk& chunk = chunks[message.chunk];
  if (chunk.here) {
    if (message.fed != *total ||
        !std::equal(bytes.begin(), bytes.end(), place_of(message.chunk).begin()))
      ++dropped;
    return;
  }
  if (!adopt(message.fed)) {
    ++dropped;
    return;
  }
  if (!bytes.empty())
    std::memcpy(buffer->data() + options.layout.first(message.chunk), bytes.data(), bytes.size());
  --peers[from].missing_results;
  chunk_is_here(message.chunk);
  heard(now, from);
  hold_when_whole(now, out);
}

void ExactExchange::State::on(Time now, std::uint16_t from, const Done& message) {
  std::optional<Done>& known = peers[from].done;
  if (known) {
    if (*known != message) ++dropped;
    return;
  }
  known = message;
  heard(now, from);
  compare_dones();
}

bool ExactExchange::State::in_order(const std::vector<std::uint32_t>& list,
                                    std::uint16_t owner) const {
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i] >= chunks.size() || owner_of(list[i]) != owner || (i > 0 && list[i] <= list[i - 1]))
      return false;
  return true;
}

void ExactExchange::State::on(std::uint16_t from, const Need& message, std::vector<SendTo>& out) {
  if (!in_order(message.partial_chunks, from) || !in_order(message.result_chunks, options.rank)) {
    ++dropped;
    return;
  }
  // Who said DONE has every result, and whose result is here has every partial: an old question.
  for (std::uint32_t chunk : message.result_chunks)
    if (chunks[chunk].here && !peers[from].done) out.push_back({from, result_of(chunk)});
  for (std::uint32_t chunk : message.partial_chunks)
    for (const CoverNode& cover_node : cover)
      if (cover_node.own && !chunks[chunk].here)
        out.push_back({from, partial_of(cover_node, chunk)});
  if (const auto& own = peers[options.rank].done; message.done && own) out.push_back({from, *own});
}

ExactExchange::ExactExchange(Options options, Time now)
    : state_(std::make_unique<State>(std::move(options), now)) {}
ExactExchange::~ExactExchange() = default;
ExactExchange::ExactExchange(ExactExchange&&) noexcept = default;
ExactExchange& ExactExchange::operator=(ExactExchange&&) noexcept = default;

void ExactExchange::on_partial(Time now, TreeNode node, SharedFloats sum, Fed fed,
                               std::vector<SendTo>& out) {
  State& state = *state_;
  const ChunkLayout& layout = state.options.layout;
  State::CoverNode* cover_node = state.find(node);
  GPUNODE_CHECK(cover_node && cover_node->rank == state.options.rank, "not a node of the cover");
  GPUNODE_CHECK(!cover_node->own, "the same partial sum twice");
  GPUNODE_CHECK(sum && sum->size() == layout.element_count, "partial sum of another length");
  cover_node->own = sum;
  cover_node->fed = fed;
  if (state.options.member_count == 1) {
    state.result = sum;
    state.result_values = sum->data();
  }
  // Results leave first, as others wait for them; then partials, chunk by chunk, the chunks of the
  // next rank first so that not all members fall on one owner.
  std::uint32_t members = state.options.member_count, count = layout.chunk_count();
  std::uint32_t own =
      (state.options.rank + members - state.options.owner_rotation % members) % members;
  std::size_t index = static_cast<std::size_t>(cover_node - state.cover.data());
  for (std::uint32_t chunk = own; chunk < count; chunk += members)
    state.fill(now, chunk, index, {sum, sum->data() + layout.first(chunk), false}, out);
  for (std::uint32_t group = 0; group < count; group += members) {
    for (std::uint32_t step = 1; step < members; ++step) {
      std::uint32_t chunk = group + (own + step) % members;
      if (chunk < count)
        out.push_back({state.owner_of(chunk), state.partial_of(*cover_node, chunk)});
    }
  }
}

void ExactExchange::set_compute_us(std::uint32_t compute_us) {
  state_->compute_us = compute_us;
}

void ExactExchange::on_message(Time now, std::uint16_t from, const ExchangeMessage& message,
                               std::vector<SendTo>& out) {
  State& state = *state_;
  if (from >= state.options.member_count || from == state.options.rank) {
    ++state.dropped;
    return;
  }
  std::visit(Overloaded{[&](const PartialChunk& partial) { state.on(now, from, partial, out); },
                        [&](const ResultChunk& result) { state.on(now, from, result, out); },
                        [&](const Done& done) { state.on(now, from, done); },
                        [&](const Need& need) { state.on(from, need, out); }},
             message);
}

void ExactExchange::on_tick(Time now, std::vector<SendTo>& out) {
  State& state = *state_;
  const auto& own = state.peers[state.options.rank].done;
  for (std::uint16_t rank = 0; rank < state.options.member_count; ++rank) {
    State::Peer& peer = state.peers[rank];
    bool lacking = own ? !peer.done : state.lacks_bytes(peer);
    if (rank == state.options.rank || !lacking || now - peer.quiet_since < peer.patience) continue;
    if (own) out.push_back({rank, *own});
    state.ask(now, rank, out);
  }
}

void ExactExchange::on_reconnected(Time now, std::uint16_t peer, std::vector<SendTo>& out) {
  State& state = *state_;
  if (peer >= state.options.member_count || peer == state.options.rank) return;
  if (const auto& own = state.peers[state.options.rank].done) out.push_back({peer, *own});
  state.heard(now, peer);
  state.ask(now, peer, out);
}

bool ExactExchange::held() const {
  return state_->peers[state_->options.rank].done.has_value();
}
bool ExactExchange::committed() const {
  return state_->committed;
}
bool ExactExchange::disagreed() const {
  return state_->disagreed;
}

SharedFloats ExactExchange::result() const {
  GPUNODE_CHECK(held(), "result of a step that is not held");
  return state_->result;
}

Done ExactExchange::done() const {
  GPUNODE_CHECK(held(), "DONE of a step that is not held");
  return *state_->peers[state_->options.rank].done;
}

Digest ExactExchange::result_digest() const {
  return done().result;
}
Fed ExactExchange::fed() const {
  return done().fed;
}

std::vector<std::uint32_t> ExactExchange::compute_us() const {
  GPUNODE_CHECK(committed(), "compute times of a step that is not committed");
  std::vector<std::uint32_t> times;
  for (const State::Peer& peer : state_->peers) times.push_back(peer.done->compute_us);
  return times;
}

std::vector<TreeNode> ExactExchange::own_cover() const {
  std::vector<TreeNode> nodes;
  for (const State::CoverNode& cover_node : state_->cover)
    if (cover_node.rank == state_->options.rank) nodes.push_back(cover_node.node);
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

std::vector<std::uint16_t> ExactExchange::waiting_for() const {
  std::vector<std::uint16_t> ranks;
  for (std::uint16_t rank = 0; rank < state_->options.member_count; ++rank) {
    const State::Peer& peer = state_->peers[rank];
    bool lacking = held() ? !peer.done : state_->lacks_bytes(peer);
    if (rank != state_->options.rank && lacking) ranks.push_back(rank);
  }
  return ranks;
}

std::uint64_t ExactExchange::dropped_messages() const {
  return state_->dropped;
}

}  // namespace gpunode::collective
