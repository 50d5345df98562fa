// A file of lines that never grows beyond a bound: when it is full it becomes FILE.1, FILE.1 becomes
// FILE.2 and so on, and the oldest goes. It may stand in for standard output and standard error, so
// that what libraries print there is in it too. Thread-safe. Cost: two system calls a write; not fsynced.
#pragma once

#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "runtime/storage/file_system.hpp"

namespace gpunode::storage {

class LogFile {
 public:
  struct Options {
    Path path;
    std::uint64_t limit_bytes = 16 << 20;  // of one file
    int kept = 4;                          // older ones, besides the one that is written to
    bool takes_output = false;             // standard output and standard error go to it
  };
  // Goes on at the end of what is there; a new file is private (0600). Fails with: permission_denied,
  // disk_full, io_error.
  static Result<std::unique_ptr<LogFile>> open(Options options);
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  // Lines that find no space on the disk are lost.
  void write(std::string_view lines);
  // The file was moved or removed: its path is opened anew. Fails as open does; the old one stays.
  Result<void> reopen();

  // What there is of `path` and older files, oldest first.
  static std::vector<Path> all(const Path& path);

 private:
  explicit LogFile(Options options) : options_(std::move(options)) {}
  Result<void> open_path();
  void rotate();

  Options options_;
  std::mutex mutex_;
  int descriptor_ = -1;
};

}  // namespace gpunode::storage
