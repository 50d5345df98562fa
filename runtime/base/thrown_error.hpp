// An error in the middle of what has no other answer, as where a sample of a data set cannot be read
// any more. Who runs such work makes an Error of it again: model::guarded does.
#pragma once

#include <exception>
#include <utility>

#include "runtime/base/error.hpp"

namespace gpunode {

class ThrownError final : public std::exception {
 public:
  explicit ThrownError(Error error) : error_(std::move(error)) {}
  const Error& error() const { return error_; }
  const char* what() const noexcept override { return error_.detail.c_str(); }

 private:
  Error error_;
};

}  // namespace gpunode
