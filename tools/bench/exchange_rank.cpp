#include "tools/bench/exchange_rank.hpp"

#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "actors/compute/trainer.hpp"
#include "actors/compute/wire_forms.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/job/exchange_mode.hpp"
#include "runtime/security/session_keys.hpp"
#include "tools/bench/job_driver.hpp"
#include "tools/bench/rank_link.hpp"
#include "tools/bench/rank_network.hpp"

namespace gpunode::bench {
namespace {

using collective::SharedFloats;

// One partial sum a member, as balanced plans give; four slices each, as a job would have.
constexpr std::uint32_t kSlicesEach = 4;

// A node's partial sum at a place: any bits of the mantissa, so that the order of additions shows.
float value_of(collective::TreeNode node, std::uint64_t place) {
  const auto bits = static_cast<std::int32_t>(mix64(place * kMaxRanks + node.index) >> 32);
  return static_cast<float>(bits) * 0x1p-31f;
}

// The tree's sum of the members' partials for places [begin, begin + out.size()), by the
// definition of the tree and by no code of the exchange.
void tree_sum(const collective::Tree& tree, collective::TreeNode node, std::uint64_t begin,
              std::span<float> out) {
  if (tree.width(node.level) == kSlicesEach) {
    for (std::size_t place = 0; place < out.size(); ++place)
      out[place] = value_of(node, begin + place);
    return;
  }
  bool first = true;
  std::vector<float> value(out.size());
  for (const collective::TreeNode child : tree.children(node)) {
    tree_sum(tree, child, begin, first ? out : std::span<float>(value));
    for (std::size_t place = 0; !first && place < out.size(); ++place)
      out[place] = out[place] + value[place];
    first = false;
  }
}

class ExchangeWork final : public RankWork {
 public:
  // mode: of the exchange, as a job names it; site: see collective::StepTimes.
  ExchangeWork(RankBoard& board, RankLinkOptions link, const std::string& mode, std::uint64_t site)
      : backend_(cpu::open_backend()), board_(board), link_options_(std::move(link)) {
    options_.rank = static_cast<std::uint16_t>(link_options_.rank);
    options_.tree = collective::Tree::of_slices(kSlicesEach * board.ranks());
    options_.add = compute::add_of(*backend_);
    auto known = job::parse_exchange_mode(mode);
    GPUNODE_CHECK(known, known.error().message());
    inexact_ = job::facts_of(*known).inexact;
    options_.mode = *known;
    options_.site = site;
    job::ExchangeSpec spec;
    spec.mode = *known;
    auto forms = compute::wire_forms_of(*backend_, spec);
    GPUNODE_CHECK(forms, forms.error().message());
    options_.forms = std::move(*forms);
  }

  Result<void> connect() override {
    transport::LinkEvents events;
    events.on_message = [this](const NodeId& from, transport::Lane lane,
                               transport::Message message) {
      driver_.on_message(from, lane, std::move(message));
    };
    events.on_state = [this](const NodeId& peer, transport::Lane lane, LinkState state) {
      driver_.on_state(peer, lane, state);
    };
    events.memory_for = [this](const NodeId& from, const transport::MessageHead& head) {
      return driver_.place_of(from, head);
    };
    auto opened = open_rank_link(board_, link_options_, std::move(events));
    if (!opened) return opened.error();
    link_ = std::move(opened->link);
    options_.members = opened->members;
    options_.signer = opened->signer;
    options_.link = link_.get();
    return {};
  }

  Result<void> prepare(std::uint64_t element_count, std::uint32_t setting) override {
    auto node = driver_.start(options_, element_count);
    if (!node) return node.error();
    auto partial = std::make_shared<std::vector<float>>(element_count);
    for (std::uint64_t place = 0; place < element_count; ++place)
      (*partial)[place] = value_of(*node, place);
    partial_ = std::move(partial);
    if (auto done = run(setting); !done) return done;
    return check();
  }

  Result<void> next(std::uint32_t) override { return driver_.next(); }

  Result<void> run(std::uint32_t) override {
    auto sum = driver_.sum(partial_);
    if (!sum) return sum.error();
    sum_ = std::move(*sum);
    return {};
  }

  void release(std::uint32_t) override {
    driver_.stop();
    sum_.reset();
    partial_.reset();
    malloc_trim(0);
  }

  ~ExchangeWork() override {
    driver_.stop();
    if (link_) link_->close();
  }

 private:
  // Every place, bit by bit; of an inexact mode, as near as a scale a block can be. What topk
  // leaves out of one sum comes with later ones.
  Result<void> check() const {
    constexpr std::size_t kBlock = 4096;
    if (options_.mode == job::ExchangeMode::topk) return {};
    const float tolerance = 0.02f * static_cast<float>(options_.members.size());
    std::vector<float> wanted(kBlock);
    for (std::size_t begin = 0; begin < sum_.size(); begin += kBlock) {
      const std::span<float> block(wanted.data(), std::min(kBlock, sum_.size() - begin));
      tree_sum(options_.tree, options_.tree.root(), begin, block);
      const std::span<const float> sum((*sum_).data() + begin, block.size());
      const bool right =
          inexact_ ? std::ranges::equal(
                         block, sum, [&](float a, float b) { return std::abs(a - b) <= tolerance; })
                   : std::memcmp(block.data(), sum.data(), block.size_bytes()) == 0;
      if (!right)
        return Error{ErrorCode::corrupted,
                     "the sum differs from the tree's after place " + std::to_string(begin)};
    }
    return {};
  }

  std::unique_ptr<ops::Backend> backend_;
  RankBoard& board_;
  RankLinkOptions link_options_;
  DriverOptions options_;
  bool inexact_ = false;
  JobDriver driver_;
  std::unique_ptr<transport::MeshLink> link_;
  SharedFloats partial_, sum_;
};

// Seals and opens what a rank of a sealed all-reduce seals and opens: 2(N-1)/N vectors each, in
// chunks, from the vector into a buffer that stays in the cache.
class CryptoWork final : public RankWork {
 public:
  explicit CryptoWork(std::uint32_t ranks)
      : ranks_(ranks),
        sealer_(security::BulkKey(), SystemClock().now()),
        opener_(security::BulkKey()) {}

  Result<void> prepare(std::uint64_t element_count, std::uint32_t setting) override {
    layout_ = collective::ChunkLayout::of(element_count);
    vector_.assign(element_count, 1);
    sealed_.resize(layout_.chunk_elements * sizeof(float) + security::kTagBytes);
    return run(setting);
  }

  Result<void> run(std::uint32_t) override {
    const std::uint64_t all = std::uint64_t{2} * (ranks_ - 1) * layout_.chunk_count();
    for (std::uint64_t turn = 0; turn * ranks_ < all; ++turn) {
      const auto chunk = static_cast<std::uint32_t>(turn % layout_.chunk_count());
      const ByteView payload = std::as_bytes(
          std::span<const float>(vector_.data() + layout_.first(chunk), layout_.size(chunk)));
      const MutableByteView sealed(sealed_.data(), payload.size() + security::kTagBytes);
      auto number = sealer_.seal({}, payload, sealed);
      if (!number) return number.error();
      if (auto opened = opener_.open(*number, {}, sealed); !opened) return opened.error();
    }
    return {};
  }

  void release(std::uint32_t) override { std::vector<float>().swap(vector_); }

 private:
  std::uint32_t ranks_;
  security::BulkSealer sealer_;
  security::BulkOpener opener_;
  collective::ChunkLayout layout_;
  std::vector<float> vector_;
  Bytes sealed_;
};

}  // namespace

int play_rank(int argc, char** argv) {
  if (argc != 5) return 2;
  // As tools/gpunode sets it.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
  const std::string mode = argv[1];
  auto board = RankBoard::open(argv[3]);
  if (!board) return 1;
  const auto rank = static_cast<std::uint32_t>(std::atoi(argv[4]));
  // 0: all on loopback.
  const auto machines = static_cast<std::uint32_t>(std::atoi(argv[2]));
  const std::uint32_t machine = RankNetwork::machine_of(rank, board->ranks(), machines);
  const std::string address = machines > 0 ? RankNetwork::address(machine) : "127.0.0.1";
  if (mode == "crypto") {
    CryptoWork work(board->ranks());
    return board->serve(rank, work);
  }
  ExchangeWork work(*board,
                    {.rank = rank, .bulk_plain = mode != "exact-sealed", .address = address},
                    mode.substr(0, mode.find('-')), machines > 0 ? machine + 1 : 0);
  return board->serve(rank, work);
}

}  // namespace gpunode::bench
