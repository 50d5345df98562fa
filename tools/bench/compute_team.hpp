// Threads that measure the same at the same time, as a node's workers compute.
#pragma once

#include <barrier>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/base/result.hpp"

namespace gpunode::bench {

// Calls  member(number, meet)  on so many threads; meet() waits for all that have not ended. The
// first failure by number is the team's.
inline Result<void> as_team(
    int threads, const std::function<Result<void>(int, const std::function<void()>&)>& member) {
  std::barrier all(threads);
  std::vector<std::optional<Error>> failures(static_cast<std::size_t>(threads));
  {
    std::vector<std::jthread> running;
    for (int number = 0; number < threads; ++number)
      running.emplace_back([&, number] {
        auto done = member(number, [&] { all.arrive_and_wait(); });
        if (!done) failures[static_cast<std::size_t>(number)] = done.error();
        all.arrive_and_drop();
      });
  }
  for (auto& failure : failures)
    if (failure) return *failure;
  return {};
}

}  // namespace gpunode::bench
