#include "tools/gpunode/start_anew.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "runtime/storage/file_system.hpp"
#include "tools/gpunode/answer.hpp"

namespace gpunode::cli {
namespace {

constexpr const char* kLosses = "GPUNODE_DEVICE_LOSSES";  // in a row, of this process
constexpr auto kLongestPause = std::chrono::seconds(64);
constexpr auto kLongLife = std::chrono::minutes(10);  // who lived as long begins a new row

const auto kBegan = std::chrono::steady_clock::now();

// The first time at once, then after 2 s, 4 s, ...
void pause_and_count() {
  const char* text = std::getenv(kLosses);
  int losses = text ? std::atoi(text) : 0;
  if (std::chrono::steady_clock::now() - kBegan > kLongLife) losses = 0;
  losses = std::clamp(losses, 0, 10);
  if (losses > 0)
    std::this_thread::sleep_for(
        std::min<std::chrono::seconds>(std::chrono::seconds(1 << losses), kLongestPause));
  setenv(kLosses, std::to_string(losses + 1).c_str(), 1);
}

// What is not to be said again: it is in the background, and a member; and where its data lies is
// remembered, with paths that hold in any folder.
bool is_of_the_first_start(const std::string& flag) {
  return flag == "--data" || flag == "--detach" || flag == "--token-file" || flag == "--state" ||
         flag == "--config";
}

}  // namespace

int start_anew(const Invocation& invocation, const std::string& config) {
  const Arguments& arguments = invocation.arguments;
  std::vector<std::string> words = {"gpunode", invocation.command->name};
  for (const Flag& flag : invocation.command->flags) {
    if (!arguments.has(flag.name) || is_of_the_first_start(flag.name)) continue;
    for (const std::string& value : arguments.all(flag.name)) {
      words.push_back(flag.name);
      if (!flag.value.empty()) words.push_back(value);
    }
  }
  words.insert(words.end(), {"--state", invocation.state()});
  if (!config.empty()) words.insert(words.end(), {"--config", config});
  for (const Operand& word : invocation.command->operands)
    if (arguments.has(word.name)) words.push_back(arguments.text(word.name));
  pause_and_count();
  std::fprintf(stderr, "gpunode: starting anew, as a device was lost\n");
  std::fflush(nullptr);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execv("/proc/self/exe", pointers.data());
  return fail(invocation, storage::error_of_errno(errno, "cannot start anew", "/proc/self/exe"));
}

}  // namespace gpunode::cli
