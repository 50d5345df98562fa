// Going to the background: a child process runs the node, and this one waits until the node is up
// or has failed. Where its output goes is NodeLog's.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/base/result.hpp"

namespace gpunode::cli {

class Background {
 public:
  struct Begun {
    std::optional<int> exit_code;       // in the parent, once the child is up or has failed
    std::unique_ptr<Background> child;  // in the child
  };
  // Forks; call it while the process has one thread.
  static Result<Begun> begin();

  // In the child, once the node is up: lets the parent end, and leaves its terminal and folder.
  Result<void> detach();

  explicit Background(int pipe) : pipe_(pipe) {}
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

 private:
  int pipe_;
};

}  // namespace gpunode::cli
