// Where a node's log goes: to <state>/node.log, and to standard error too while the node has a person
// in front of it. The state directory is made by the node, so lines of its start are kept until then;
// if it does not start they are on standard error. One at a time; it must outlive the node.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/log.hpp"
#include "runtime/base/result.hpp"
#include "runtime/storage/log_file.hpp"

namespace gpunode::cli {

class NodeLog {
 public:
  struct Options {
    bool json = false;      // records as JSON instead of text
    bool detaches = false;  // nobody reads standard error: it goes to the file, once there is one
  };
  static constexpr const char* kFile = "node.log";

  explicit NodeLog(Options options);
  ~NodeLog();
  NodeLog(const NodeLog&) = delete;
  NodeLog& operator=(const NodeLog&) = delete;

  // From now on into the file of this state directory. Fails with what LogFile::open fails with.
  Result<void> begin(const std::string& state);
  // After somebody moved the file away.
  void reopen();

 private:
  void take(const log::Record& record);

  Options options_;
  std::string held_, unheard_;  // until begin(); what of it has not been on standard error
  std::unique_ptr<storage::LogFile> file_;
  bool mirrors_ = false;
};

// A record as it stands in the log in JSON, with a line end.
std::string json_line(const log::Record& record);

}  // namespace gpunode::cli
