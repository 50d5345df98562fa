// Named rules of a protocol that a test may break, to see that the simulator notices: a check that
// never fails proves nothing. Where the code obeys a rule that could be left out by mistake, it
// asks `broken("name")` and does the wrong thing if so. Production registers nothing and pays one
// relaxed load; tests/support/broken_rules.hpp breaks a rule for as long as an object lives.
#pragma once

#include <atomic>
#include <string_view>

namespace gpunode {

using BrokenRuleHook = bool (*)(std::string_view rule);
inline std::atomic<BrokenRuleHook> broken_rule_hook{nullptr};

// Whether this rule is not to be obeyed. A test in tests/sim breaks each: the table in
// job_mutation_test.cpp, or a situation of its own.
inline bool broken(std::string_view rule) {
  const BrokenRuleHook hook = broken_rule_hook.load(std::memory_order_relaxed);
  return hook && hook(rule);
}

}  // namespace gpunode
