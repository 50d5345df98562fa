#include "runtime/base/precision.hpp"

#include <string>

namespace gpunode {

Result<Precision> parse_precision(std::string_view text) {
  for (const Precision one : {Precision::fp32, Precision::bf16, Precision::tf32})
    if (text == to_string(one)) return one;
  if (text == "fp16")
    return Error{
        ErrorCode::unsupported,
        "fp16 is not there yet, as it needs a loss scale: use bf16, which has the range of "
        "fp32 and needs none, or fp32"};
  return Error{ErrorCode::invalid_argument,
               "no precision '" + std::string(text) + "': use fp32, the default, bf16, or tf32"};
}

}  // namespace gpunode
