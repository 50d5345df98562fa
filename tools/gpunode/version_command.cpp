// `version`: what this build is and what this machine lets it do.
#include <sys/utsname.h>

#include "runtime/base/version.hpp"
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/text.hpp"

namespace gpunode::cli {
namespace {

// The widest instructions that this processor offers.
std::string instruction_set() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return "x86-64 avx512";
  if (__builtin_cpu_supports("avx2")) return "x86-64 avx2";
  return "x86-64";
#else
  utsname machine{};
  return uname(&machine) == 0 ? machine.machine : "unknown";
#endif
}

}  // namespace

int run_version(const Invocation& invocation) {
  constexpr bool kCuda = GPUNODE_BUILT_WITH_CUDA != 0;
  if (invocation.json()) {
    print_json({{"version", program_version()},
                {"cuda", kCuda},
                {"instruction_set", instruction_set()},
                {"build", GPUNODE_BUILD_TYPE},
                {"compiler", __VERSION__},
                {"libraries", nlohmann::json::parse(GPUNODE_LIBRARIES_JSON)}});
    return kOk;
  }
  std::vector<std::vector<std::string>> rows = {
      {"gpunode", std::string(program_version())},
      {"build", std::string(GPUNODE_BUILD_TYPE) + ", gcc " + __VERSION__},
      {"CUDA", kCuda ? "built in; used where a driver is" : "not built in"},
      {"processor", instruction_set()}};
  auto libraries = nlohmann::json::parse(GPUNODE_LIBRARIES_JSON);
  for (const auto& [name, version] : libraries.items())
    rows.push_back({name, version.get<std::string>()});
  print(aligned(rows));
  return kOk;
}

}  // namespace gpunode::cli
