#include "tools/gpunode/output_file.hpp"

#include <algorithm>
#include <filesystem>

namespace gpunode::cli {

Result<storage::Path> output_file(const Invocation& invocation, const std::string& out) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const storage::Path path = fs::absolute(out).lexically_normal();
  const auto there = fs::status(path, ignored);
  if (fs::exists(there) && !fs::is_regular_file(there))
    return Error{ErrorCode::invalid_argument,
                 path.string() + " is not a file: name one that may be written anew"};
  const fs::path folder = fs::weakly_canonical(path.parent_path(), ignored);
  if (!fs::is_directory(folder, ignored))
    return Error{ErrorCode::not_found,
                 "there is no folder " + path.parent_path().string() + ": make it first"};
  const fs::path state = fs::weakly_canonical(invocation.state(), ignored);
  if (std::mismatch(state.begin(), state.end(), folder.begin(), folder.end()).first == state.end())
    return Error{ErrorCode::invalid_argument, path.string() +
                                                  " lies in the node's state directory, which is "
                                                  "its own: name a file elsewhere"};
  return path;
}

}  // namespace gpunode::cli
