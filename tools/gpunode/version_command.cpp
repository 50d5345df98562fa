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

std::string text_of(const nlohmann::json& answer) {
  std::vector<std::vector<std::string>> rows = {
      {"gpunode", word(answer, "version")},
      {"build", word(answer, "build") + ", gcc " + word(answer, "compiler")},
      {"CUDA",
       field<bool>(answer, "cuda", false) ? "built in; used where a driver is" : "not built in"},
      {"processor", word(answer, "instruction_set")}};
  const auto libraries = object(answer, "libraries");
  for (const auto& [name, version] : libraries.items())
    rows.push_back({name, version.get<std::string>()});
  return aligned(rows);
}

}  // namespace

int run_version(const Invocation& invocation) {
  return tell(invocation,
              {{{"version", program_version()},
                {"cuda", GPUNODE_BUILT_WITH_CUDA != 0},
                {"instruction_set", instruction_set()},
                {"build", GPUNODE_BUILD_TYPE},
                {"compiler", __VERSION__},
                {"libraries", nlohmann::json::parse(GPUNODE_LIBRARIES_JSON)}},
               std::nullopt,
               kOk},
              text_of);
}

}  // namespace gpunode::cli
