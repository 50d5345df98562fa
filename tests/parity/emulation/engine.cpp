#include "tests/parity/emulation/engine.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "tests/parity/emulation/block.hpp"

namespace gpunode::emulation {
namespace {

struct Common {
  Settings settings;
  Report report;
  std::map<const void*, std::size_t> shared_limits;
  std::mutex mutex;
  std::vector<std::unique_ptr<Block>> idle;  // blocks' memory, for the next launch
};
Common& all() {
  static Common common;
  return common;
}

std::unique_ptr<Block> take_block() {
  std::lock_guard lock(all().mutex);
  if (all().idle.empty()) return std::make_unique<Block>();
  auto block = std::move(all().idle.back());
  all().idle.pop_back();
  return block;
}

void add(const Report& part) {
  Report& sum = all().report;
  if (sum.error.empty()) sum.error = part.error;
  sum.warp_operations += part.warp_operations;
  sum.barriers += part.barriers;
  sum.bank_conflicts += part.bank_conflicts;
  sum.points.insert(part.points.begin(), part.points.end());
}

std::string refusal(const Launch& launch) {
  const auto found = all().shared_limits.find(launch.kernel);
  const std::size_t limit = found == all().shared_limits.end() ? kStaticShared : found->second;
  if (launch.blocks == 0 || launch.threads == 0 || launch.threads > 1024)
    return "a launch of " + std::to_string(launch.blocks) + " blocks of " +
           std::to_string(launch.threads) + " threads";
  if (launch.shared_bytes > limit)
    return std::to_string(launch.shared_bytes) + " bytes of shared memory where " +
           std::to_string(limit) + " are allowed";
  return "";
}

}  // namespace

Settings& settings() {
  return all().settings;
}

Report& report() {
  return all().report;
}

void set_shared_limit(const void* kernel, std::size_t bytes) {
  all().shared_limits[kernel] = std::min(bytes, kLargestShared);
}

bool run(const Launch& launch) {
  if (auto why = refusal(launch); !why.empty()) {
    add({.error = why});
    return false;
  }
  std::atomic<unsigned> next = 0;
  std::atomic<bool> failed = false;
  std::map<unsigned, Report> failures;  // by block, so that the first is told on each run
  std::mutex mutex;
  const auto work = [&] {
    auto block = take_block();
    Report sum;
    for (unsigned index = next++; index < launch.blocks && !failed; index = next++) {
      Report one = block->run(launch, index, all().settings);
      std::lock_guard lock(mutex);
      if (!one.error.empty()) {
        failed = true;
        failures[index] = one;
      }
      one.error.clear();
      add(one);
    }
    std::lock_guard lock(all().mutex);
    all().idle.push_back(std::move(block));
  };
  const unsigned cores = std::max(1u, std::min(4u, std::thread::hardware_concurrency()));
  std::vector<std::thread> others;
  for (unsigned i = 1; i < std::min(cores, launch.blocks); ++i) others.emplace_back(work);
  // Not on this thread: a lane may not see what thread-local things its caller has.
  std::thread(work).join();
  for (std::thread& other : others) other.join();
  if (failed) add({.error = failures.begin()->second.error});
  return !failed;
}

}  // namespace gpunode::emulation
