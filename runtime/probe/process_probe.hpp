// What this process uses of its machine, read from /proc/self. Exists for the metrics that every
// program has. A call reads four small files; any thread. Unknown is not zero.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace gpunode::probe {

struct ProcessSample {
  std::optional<double> cpu_seconds;         // user and system, of all threads, since the start
  std::optional<double> start_unix_seconds;  // when it began
  std::optional<std::uint64_t> resident_bytes, virtual_bytes;
  std::optional<std::uint64_t> open_files,
      most_files;  // the latter by its own limit, where it has one
};

ProcessSample sample_process(const std::filesystem::path& proc = "/proc");

}  // namespace gpunode::probe
