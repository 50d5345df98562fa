// A stream of the CPU's backend: the calling thread, and the team that may help it.
#pragma once

#include "kernels/cpu/detail/thread_team.hpp"
#include "kernels/tensor/stream.hpp"

namespace gpunode::cpu {

class CpuStream final : public tensor::Stream {
 public:
  explicit CpuStream(ThreadTeam& team) : team_(team) {}
  Result<void> synchronise(tensor::WaitSite) override { return {}; }
  ThreadTeam& team() { return team_; }

 private:
  ThreadTeam& team_;  // the backend's
};

// Null on a stream of another kind, which stands in for one of ours: its caller works alone.
inline ThreadTeam* team_of(tensor::Stream& stream) {
  auto* own = dynamic_cast<CpuStream*>(&stream);
  return own ? &own->team() : nullptr;
}

}  // namespace gpunode::cpu
