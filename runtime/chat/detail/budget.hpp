// What one rendering may cost, so that no template and no message is without end: steps, bytes made
// on the way, and how deep things lie in one another. What is beyond is thrown as a ThrownError of
// resource_exhausted, and becomes an Error again in chat_template.cpp. One a rendering: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "runtime/base/thrown_error.hpp"

namespace gpunode::chat::detail {

[[noreturn]] inline void fail(ErrorCode code, std::string detail) {
  throw ThrownError(Error{code, std::move(detail)});
}
[[noreturn]] inline void wrong(std::string detail) {
  fail(ErrorCode::invalid_argument, std::move(detail));
}
[[noreturn]] inline void not_known(std::string detail) {
  fail(ErrorCode::unsupported, std::move(detail) + " is not known here");
}
[[noreturn]] inline void too_much(std::string detail) {
  fail(ErrorCode::resource_exhausted, std::move(detail));
}

constexpr unsigned kNesting = 100;       // lists in lists, iterators of iterators, expressions
constexpr unsigned kCallDepth = 400;     // expressions and statements under way at one time
constexpr std::size_t kSteps = 4 << 20;  // values looked at

class Budget {
 public:
  // Bytes that the template and what it is given have; what is made may be many times that.
  explicit Budget(std::size_t input_bytes) : bytes_((std::size_t{8} << 20) + 64 * input_bytes) {}

  void step(std::size_t count = 1) {
    if (count > steps_) too_much("it takes more steps than any chat template needs");
    steps_ -= count;
  }
  // A search for a text of a size in another, which may look at each place for as long as that.
  void search(std::size_t in, std::size_t sought) { step((in / 64 + 1) * (sought / 64 + 1)); }
  void make(std::size_t bytes) {
    if (bytes > bytes_) too_much("it makes more text than any chat template needs");
    bytes_ -= bytes;
  }

  // One level deeper while it lives.
  class Deeper {
   public:
    explicit Deeper(Budget& budget) : budget_(budget) {
      budget_.step();
      if (budget_.depth_ >= kCallDepth) too_much("it calls itself too often");
      ++budget_.depth_;
    }
    ~Deeper() { --budget_.depth_; }
    Deeper(const Deeper&) = delete;

   private:
    Budget& budget_;
  };

 private:
  std::size_t steps_ = kSteps;
  std::size_t bytes_;
  unsigned depth_ = 0;
};

}  // namespace gpunode::chat::detail
