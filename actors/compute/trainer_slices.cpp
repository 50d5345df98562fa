// What is missing of a step, computed block by block, on one device or on all.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "actors/compute/trainer.hpp"
#include "runtime/base/fault_point.hpp"

namespace gpunode::compute {

using collective::DataFingerprint;

// Nodes that one device computes at once, and the data that their samples lie in.
struct Trainer::Block {
  std::vector<SumTask> tasks;
  std::vector<PassNode> nodes;
  std::vector<DataFingerprint> fingerprints;  // by node
  std::vector<ingest::Slice> data;
  std::size_t ahead = 0;  // so many of the slices are begun
};

// At most `capacity` of a store's missing slices, of the samples of step data_step + 1.
Result<Trainer::Block> Trainer::next_block(Replica& replica, const Order& order,
                                           std::size_t capacity) {
  Block block;
  block.tasks = order.store.next(capacity, static_cast<std::size_t>(replica.workers().workers()));
  if (block.tasks.empty()) return block;
  std::vector<std::uint32_t> slices;
  for (const SumTask& task : block.tasks)
    slices.insert(slices.end(), task.slices.begin(), task.slices.end());
  if (&order.store == &store_ && times_.slices == 0) first_block_ = slices;
  auto taken = take_ahead(order.data_step, slices);
  if (!taken) return taken.error();
  block.data = std::move(*taken);
  block.ahead = block.data.size();
  block.data.reserve(slices.size());
  std::size_t next = 0;
  for (const SumTask& task : block.tasks) {
    auto sum = replica.device().make_sum(pool_->take(), model_->parameter_count());
    if (!sum) return sum.error();
    PassNode& node = block.nodes.emplace_back(PassNode{task, {}, *std::move(sum)});
    if (stays_on(replica, order)) node.task.wanted = false;  // nor does the host need it
    for (SharedSum& kept : node.task.kept_sums) {
      auto here = replica.device().adopt(0, kept);
      if (!here) return here.error();
      kept = *std::move(here);
    }
    DataFingerprint& data_fingerprint = block.fingerprints.emplace_back(task.kept_fingerprint);
    for (std::uint32_t slice : task.slices) {
      if (next == block.data.size())
        block.data.push_back(replica.use().apart([&] {
          return prefetcher_->take({order.data_step, slice});
        }));
      const ingest::Slice& read = block.data[next++];
      const DataFingerprint slice_fingerprint{read.data_fingerprint, read.samples.size()};
      order.on_slice(slice, slice_fingerprint);
      data_fingerprint += slice_fingerprint;
      node.samples.push_back(samples_of(read));
    }
  }
  return block;
}

// Tells the ranges of the block's wanted nodes; does not keep the sums.
Result<void> Trainer::compute_on(Replica& replica, const Order& order, Block& block) {
  const Duration starved = prefetcher_->starvation().waiting - order.waiting;
  std::atomic<std::size_t> untold = block.tasks.size() * element_count();
  const bool stays = stays_on(replica, order);
  const auto on_final = [&](std::size_t node, std::size_t first, std::size_t count) {
    if (stays) return;
    const bool last = untold.fetch_sub(count) == count;
    if (block.tasks[node].wanted)
      order.tell(
          {{0, step_ + 1, block.tasks[node].node, block.nodes[node].sum->host,
            block.fingerprints[node], first, count, spent(order.begin, starved, block.data.size())},
           last && replicas_.size() == 1});
  };
  auto done = replica.pass().run(block.nodes, on_final, block.ahead);
  return done && stays ? tell_shared(order, block, starved) : done;
}

// The wanted sums of a block that stay where they are.
Result<void> Trainer::tell_shared(const Order& order, const Block& block, Duration starved) {
  for (std::size_t node = 0; node < block.tasks.size(); ++node) {
    if (!block.tasks[node].wanted) continue;
    if (sums_go_ == SumsGo::by_devices) {
      std::lock_guard lock(share_mutex_);
      kept_.push_back({block.tasks[node].node, block.nodes[node].sum, block.fingerprints[node]});
      continue;
    }
    auto sum = share(block.nodes[node].sum);
    if (!sum) return sum.error();
    order.tell({{0, step_ + 1, block.tasks[node].node, *std::move(sum), block.fingerprints[node], 0,
                 element_count(), spent(order.begin, starved, block.data.size())},
                replicas_.size() == 1 && node + 1 == block.tasks.size()});
  }
  return {};
}

void Trainer::keep(const Order& order, Block& block) {
  for (std::size_t node = 0; node < block.tasks.size(); ++node)
    order.store.keep(block.tasks[node], std::move(block.nodes[node].sum), block.fingerprints[node]);
}

// The next block on the first device.
Result<void> Trainer::compute_block(Order order) {
  order.begin = clock_->now();
  order.waiting = prefetcher_->starvation().waiting;
  auto block = next_block(first(), order, slice_memory_.slices);
  if (!block) return block.error();
  if (block->tasks.empty()) return {};
  fault_point("slice", step_ + 1);
  if (auto done = compute_on(first(), order, *block); !done) return done;
  keep(order, *block);
  times_ =
      spent(order.begin, prefetcher_->starvation().waiting - order.waiting, block->data.size());
  return {};
}

// All that is missing, on all devices: each begins with its share by speed, as far as measured, and
// takes some more of the rest when it is through.
Result<void> Trainer::compute_on_all(Order order) {
  order.begin = clock_->now();
  order.waiting = prefetcher_->starvation().waiting;
  const std::size_t missing = order.store.missing().size();
  if (missing == 0) return {};
  double speeds = 0;
  bool all_known = true;
  for (const auto& replica : replicas_) {
    speeds += replica->speed();
    all_known = all_known && replica->speed() > 0;
  }
  std::size_t computed = 0;
  fault_point("slice", step_ + 1);
  auto done = on_all([&](Replica& replica) -> Result<void> {
    const double share =
        all_known ? replica.speed() / speeds : 1.0 / static_cast<double>(replicas_.size());
    auto capacity = static_cast<std::size_t>(std::lround(share * static_cast<double>(missing)));
    while (takes_slices(replica)) {
      capacity = std::clamp<std::size_t>(capacity, 1, replica.slices_at_once());
      auto lock = replica.use().apart([&] { return std::unique_lock(share_mutex_); });
      auto block = next_block(replica, order, capacity);
      if (!block || block->tasks.empty()) return block ? Result<void>() : block.error();
      lock.unlock();
      const Time begin = clock_->now();
      if (auto computing = compute_on(replica, order, *block); !computing) return computing;
      replica.note_speed(block->data.size(), clock_->now() - begin);
      lock.lock();
      keep(order, *block);
      computed += block->data.size();
      capacity = order.store.missing().size() / (2 * replicas_.size());
    }
    return {};
  });
  if (!done) return done;
  times_ = spent(order.begin, prefetcher_->starvation().waiting - order.waiting, computed);
  return {};
}

}  // namespace gpunode::compute
