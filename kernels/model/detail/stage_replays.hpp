// Stages that a worker runs again and again at the same addresses, started in one call: of each, its
// executable and its places, the device's note of it (ops::NotedWork; a CUDA graph). What is met for
// the first time runs as ever, as libraries choose their ways then; the second time it is noted. A
// device that notes nothing, or not this, runs it as ever. One thread at a time, and one stream.
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <vector>

#include "kernels/graph/executable.hpp"

namespace gpunode::model {

class StageReplays {
 public:
  struct Stage {
    const graph::Executable* executable = nullptr;  // outlives the replays
    std::size_t number = 0;
    std::size_t workspace_bytes = 0;  // a larger workspace is another one
  };
  // Queues the stage. Fails with: what Executable::run fails with.
  Result<void> run(const Stage& stage, ops::Backend& backend, tensor::Stream& stream,
                   tensor::Workspace& workspace, const graph::Places& places);
  // It goes: what is made later may have its address.
  void forget(const graph::Executable& executable);
  // Nothing that was queued is under way any more.
  void settle() { retired_.clear(); }

 private:
  struct Key {
    const graph::Executable* executable;
    std::size_t number, workspace_bytes;
    const void *slice, *scratch, *parameters, *constants, *gradient;
    auto operator<=>(const Key&) const = default;
  };
  struct Known {
    std::unique_ptr<ops::NotedWork> work{};
    bool is_refused = false;
  };
  // Of addresses that come and go, as where a sum lies; then all are forgotten, and noted anew.
  static constexpr std::size_t kMostKnown = 512;

  std::map<Key, Known> known_;
  std::vector<std::unique_ptr<ops::NotedWork>> retired_;  // may be under way
};

}  // namespace gpunode::model
