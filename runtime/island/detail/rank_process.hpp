// A rank process and what is shared with it. Owned and used by the island's thread alone: the
// system ends the process with the thread that started it.
#pragma once

#include <sys/types.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/island/detail/rank_protocol.hpp"

namespace gpunode::island {

class RankProcess {
 public:
  // Fails with: resource_exhausted (descriptors, memory, processes), not_found (no such program).
  static Result<std::unique_ptr<RankProcess>> start(const std::vector<std::string>& command,
                                                    std::size_t element_count);
  // Kills it, and waits a moment for its end; one that the driver holds is left to a thread that
  // ends with it.
  ~RankProcess();
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  pid_t id() const { return pid_; }
  int control() const { return control_; }  // readable: an answer, or its end
  std::span<float> vector() const { return vector_; }
  bool send(const RankOrder& order) const;
  bool receive(RankAnswer& answer) const;  // false: it has ended
  // "signal 9", "exit code 1"; once it has ended, else empty.
  std::string how_it_ended();

 private:
  RankProcess() = default;
  Result<void> spawn(const std::vector<std::string>& command, int control, int memory);

  pid_t pid_ = -1;
  int control_ = -1;
  std::span<float> vector_;
};

}  // namespace gpunode::island
