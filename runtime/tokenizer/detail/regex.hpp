// A regular expression of a tokenizer.json, run by Oniguruma, for which such files are written. Any
// number of threads may use one at a time. An expression that would look at a text for too long gives
// up with an error.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/result.hpp"

namespace gpunode::tokenizer::detail {

class Regex {
 public:
  // Fails with: invalid_argument (not an expression).
  static Result<Regex> open(const std::string& expression);

  using Found = std::function<void(std::size_t begin, std::size_t end)>;
  // Calls `found` for each match, from the first one on, none overlapping another.
  // Fails with: resource_exhausted.
  Result<void> each(std::string_view text, const Found& found) const;

 private:
  struct Compiled;
  explicit Regex(std::shared_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace gpunode::tokenizer::detail
