// A whole view in one process for the tests: N exchanges, a wire that may lose, double, delay and
// shift messages, and an independent reference for the sum.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/base/rng.hpp"
#include "runtime/collective/all_reduce.hpp"

namespace gpunode::collective {

using Values = std::vector<float>;

inline void plain_add(float* out, std::span<const float* const> inputs, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    float sum = inputs[0][i];
    for (std::size_t k = 1; k < inputs.size(); ++k) sum = sum + inputs[k][i];
    out[i] = sum;
  }
}

inline Values sum_in_order(const std::vector<Values>& terms) {
  Values sum = terms[0];
  for (std::size_t k = 1; k < terms.size(); ++k)
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = sum[i] + terms[k][i];
  return sum;
}

// The definition of right: one owner of all slices, straight down the tree.
inline Values tree_sum(const Tree& tree, TreeNode node, const std::vector<Values>& slices) {
  if (node.level == 0) return slices[node.index];
  std::vector<Values> terms;
  for (TreeNode child : tree.children(node)) terms.push_back(tree_sum(tree, child, slices));
  return sum_in_order(terms);
}

inline bool same_bits(const Values& a, const Values& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// Gradients of G slices: near one another, or of random sign, mantissa and magnitude 1e-30 to 1e30.
inline std::vector<Values> random_slices(Rng& rng, std::uint32_t slices, std::size_t length,
                                         bool wild) {
  std::vector<Values> all(slices, Values(length));
  for (Values& values : all)
    for (float& value : values) {
      double random = rng.uniform() * 2 - 1;
      value = static_cast<float>(wild ? random * std::pow(10.0, rng.uniform() * 60 - 30) : random);
    }
  return all;
}

inline DataFingerprint fed_of_slice(std::uint32_t slice) {
  return {{mix(1, slice), mix(2, slice)}, slice + 1};
}

inline DataFingerprint fed_of(const Tree& tree, TreeNode node) {
  DataFingerprint data_fingerprint;
  for (std::uint32_t i = 0; i < tree.width(node.level); ++i)
    data_fingerprint += fed_of_slice(tree.first_slice(node) + i);
  return data_fingerprint;
}

struct Faults {
  double loss = 0, doubling = 0;
  bool shuffled = false;
  bool shifted = false;  // payloads arrive in fresh memory at odd addresses
  double placed = 0;     // read to their place; at every third the connection breaks on the way
};

class Group {
 public:
  struct Flying {
    std::uint16_t from = 0;
    SendTo send;
  };

  Group(Tree tree, SlicePlan plan, std::uint16_t members, ChunkLayout layout,
        std::vector<Values> slices, std::uint32_t rotation = 0,
        std::vector<std::shared_ptr<ChunkForm>> forms = {},  // by rank; empty: as they lie
        std::shared_ptr<const SumRoute> route = {})
      : tree_(std::move(tree)), slices_(std::move(slices)) {
    forms.resize(members);
    for (std::uint16_t rank = 0; rank < members; ++rank) {
      AllReduce::Options options;
      options.rank = rank;
      options.member_count = members;
      options.owner_rotation = rotation;
      options.tree = tree_;
      options.plan = plan;
      options.layout = layout;
      options.form = forms[rank];
      options.route = route;
      options.add = [](float* out, std::span<const float* const> inputs, std::size_t count) {
        for (const float* input : inputs)
          GPUNODE_CHECK(reinterpret_cast<std::uintptr_t>(input) % alignof(float) == 0,
                        "misaligned");
        plain_add(out, inputs, count);
      };
      exchanges_.emplace_back(std::move(options), now_);
    }
  }

  AllReduce& operator[](std::size_t rank) { return exchanges_[rank]; }
  std::size_t size() const { return exchanges_.size(); }
  Time now() const { return now_; }

  // Computes and hands in one partial sum.
  void compute(std::uint16_t rank, TreeNode node) {
    std::vector<SendTo> out;
    auto sum = std::make_shared<const Values>(tree_sum(tree_, node, slices_));
    exchanges_[rank].on_partial(now_, node, sum, fed_of(tree_, node), out);
    take(rank, out);
  }
  void compute_all() {
    for (std::uint16_t rank = 0; rank < size(); ++rank)
      for (TreeNode node : exchanges_[rank].own_cover()) compute(rank, node);
  }
  void tick(Duration by) {
    now_ += by;
    for (std::uint16_t rank = 0; rank < size(); ++rank) {
      std::vector<SendTo> out;
      exchanges_[rank].on_tick(now_, out);
      take(rank, out);
    }
  }
  void deliver(std::uint16_t from, std::uint16_t to, const ExchangeMessage& message) {
    std::vector<SendTo> out;
    exchanges_[to].on_message(now_, from, message, out);
    take(to, out);
  }
  void reconnect(std::uint16_t a, std::uint16_t b) {
    for (auto [rank, peer] : {std::pair(a, b), std::pair(b, a)}) {
      std::vector<SendTo> out;
      exchanges_[rank].on_reconnected(now_, peer, out);
      take(rank, out);
    }
  }
  // Delivers what is on the wire, and what that causes, until the wire is empty.
  void run(Rng& rng, const Faults& faults) {
    while (!wire.empty()) {
      std::size_t at = faults.shuffled ? rng.below(wire.size()) : 0;
      Flying flying = wire[at];
      if (rng.chance(faults.doubling) == false) wire.erase(wire.begin() + at);
      if (rng.chance(faults.loss)) continue;
      if (rng.chance(faults.placed))
        place(flying, rng.below(3) == 0);
      else if (faults.shifted)
        shift(flying.send.message, 1 + rng.below(7));
      deliver(flying.from, flying.send.rank, flying.send.message);
    }
  }
  bool all_committed() const {
    return std::all_of(exchanges_.begin(), exchanges_.end(),
                       [](const AllReduce& exchange) { return exchange.committed(); });
  }
  const std::vector<Values>& slices() const { return slices_; }
  Values expected() const { return tree_sum(tree_, tree_.root(), slices_); }

  std::vector<Flying> wire;

 private:
  void take(std::uint16_t from, std::vector<SendTo>& out) {
    for (SendTo& send : out) wire.push_back({from, std::move(send)});
  }
  static SharedBytes* payload_of(ExchangeMessage& message) {
    if (auto* partial = std::get_if<PartialChunk>(&message)) return &partial->payload;
    auto* result = std::get_if<ResultChunk>(&message);
    return result ? &result->payload : nullptr;
  }
  // Reads the payload to its place, or half of it, and then the whole elsewhere.
  void place(Flying& flying, bool breaks) {
    SharedBytes* payload = payload_of(flying.send.message);
    const auto places = exchanges_[flying.send.rank].places();
    if (!payload || !places) return;
    ChunkPlaces::Use use{flying.from, std::nullopt};
    std::uint32_t chunk = 0;
    if (const auto* partial = std::get_if<PartialChunk>(&flying.send.message)) {
      use.partial = partial->node;
      chunk = partial->chunk;
    } else {
      chunk = std::get<ResultChunk>(flying.send.message).chunk;
    }
    WritableBytes loan = places->lend(chunk, use, payload->size());
    if (loan.view.size() != payload->size()) return;
    if (breaks) {
      std::ranges::fill(loan.view.first(loan.view.size() / 2), std::byte{0x5a});
      return;
    }
    std::ranges::copy(payload->view, loan.view.begin());
    *payload = {std::move(loan.owner), loan.view};
  }
  static void shift(ExchangeMessage& message, std::size_t by) {
    SharedBytes* payload = payload_of(message);
    if (!payload) return;
    Bytes moved(by);
    moved.insert(moved.end(), payload->view.begin(), payload->view.end());
    std::size_t length = payload->size();
    *payload = SharedBytes::from(std::move(moved)).part(by, length);
  }

  Tree tree_;
  std::vector<Values> slices_;
  Time now_{};
  std::vector<AllReduce> exchanges_;
};

inline constexpr ChunkLayout kLayout{10, 4};  // chunks of 4, 4 and 2

inline Group two_members(std::uint64_t seed = 1) {
  Rng rng(seed);
  Tree tree = Tree::of_slices(4);
  return Group(tree, balanced_plan(tree, 2), 2, kLayout, random_slices(rng, 4, 10, true));
}

inline SharedBytes floats(std::vector<float> values) {
  return SharedBytes::from(to_bytes(bytes_of(std::span<const float>(values))));
}

// Every slice to a random member: scattered, or in contiguous runs of random length (also empty).
inline SlicePlan scattered_plan(Rng& rng, std::uint32_t slices, std::uint16_t members) {
  SlicePlan plan;
  for (std::uint32_t i = 0; i < slices; ++i)
    plan.owner.push_back(static_cast<std::uint16_t>(rng.below(members)));
  return plan;
}
inline SlicePlan runs_plan(Rng& rng, std::uint32_t slices, std::uint16_t members) {
  SlicePlan plan = scattered_plan(rng, slices, members);
  std::sort(plan.owner.begin(), plan.owner.end());
  return plan;
}
inline SlicePlan even_plan(std::uint32_t slices, std::uint16_t members) {
  SlicePlan plan;
  for (std::uint32_t i = 0; i < slices; ++i)
    plan.owner.push_back(static_cast<std::uint16_t>(i * members / slices));
  return plan;
}

}  // namespace gpunode::collective
