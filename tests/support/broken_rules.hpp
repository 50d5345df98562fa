// Breaks one rule of the product (runtime/base/broken_rule.hpp) while it lives, and counts how
// often the code came by it: a rule that nobody asks for is misspelt, or was renamed, or its case
// never came about. One at a time in a process; made and ended while no other thread runs the code.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/broken_rule.hpp"
#include "runtime/base/check.hpp"

namespace gpunode::testing {

class BreakRule {
 public:
  explicit BreakRule(std::string_view rule) : rule_(rule) {
    GPUNODE_CHECK(!now_, "one rule is broken at a time");
    now_ = this;
    broken_rule_hook = [](std::string_view asked) {
      if (asked != now_->rule_) return false;
      ++now_->asked_;
      return true;
    };
  }
  ~BreakRule() {
    broken_rule_hook = nullptr;
    now_ = nullptr;
  }
  BreakRule(const BreakRule&) = delete;
  BreakRule& operator=(const BreakRule&) = delete;

  std::uint64_t asked() const { return asked_; }

 private:
  static inline BreakRule* now_ = nullptr;
  std::string rule_;
  std::atomic<std::uint64_t> asked_{0};
};

}  // namespace gpunode::testing
