// Where a text that comes in pieces is over: before the first of some sequences, which may begin in one
// piece and end in another. Holds back what could be the beginning of one. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpunode::inference {

class StopSequences {
 public:
  // Empty ones stop nothing.
  explicit StopSequences(std::vector<std::string> sequences);

  // What of the text so far is sure to stand in it, and was not given before. Nothing once it is over.
  std::string add(std::string_view piece);
  // The rest, where the text ends without a sequence.
  std::string end();
  bool is_over() const { return over_; }

 private:
  std::vector<std::string> sequences_;
  std::string held_;
  bool over_ = false;
};

}  // namespace gpunode::inference
