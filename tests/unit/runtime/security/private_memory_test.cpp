#include "runtime/security/private_memory.hpp"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>

#include "runtime/security/secret.hpp"

namespace gpunode::security {
namespace {

// 0 if all of it holds, in a process of its own as this one's memory is to stay readable.
int whether_private() {
  const rlimit some{1 << 20, RLIM_INFINITY};
  (void)::setrlimit(RLIMIT_CORE, &some);
  if (::prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 1) return 1;
  if (!keep_memory_private()) return 2;
  rlimit limit{1, 1};
  if (::getrlimit(RLIMIT_CORE, &limit) != 0 || limit.rlim_cur != 0 || limit.rlim_max != 0) return 3;
  return ::prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0 ? 0 : 4;
}

TEST(PrivateMemory, allowsNoCoreDumpAndNoDebugger) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(whether_private());
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// The flags of the mapping that holds an address, as "rd wr mr ...".
std::string mapping_flags(const void* address) {
  std::FILE* maps = std::fopen("/proc/self/smaps", "r");
  if (!maps) return {};
  char line[512], flags[256];
  unsigned long begin = 0, end = 0;
  bool inside = false;
  std::string found;
  while (std::fgets(line, sizeof line, maps)) {
    if (std::sscanf(line, "%lx-%lx ", &begin, &end) == 2) {
      const auto at = reinterpret_cast<unsigned long>(address);
      inside = at >= begin && at < end;
    }
    if (inside && std::sscanf(line, "VmFlags: %255[^\n]", flags) == 1) found = flags;
  }
  std::fclose(maps);
  return found;
}

TEST(PrivateMemory, aGuardedSecretIsOnPagesThatNoCoreDumpHolds) {
  GuardedSecret<32> secret;
  ASSERT_EQ(secret.view().size(), 32u);
  const std::string flags = mapping_flags(secret.view().data());
  if (flags.empty()) GTEST_SKIP() << "/proc/self/smaps tells no flags here";
  EXPECT_NE(flags.find("dd"), std::string::npos) << flags;
  int plain = 0;
  EXPECT_EQ(mapping_flags(&plain).find("dd"), std::string::npos);
}

TEST(PrivateMemory, whatWasMovedFromIsEmpty) {
  GuardedSecret<4> first;
  first.writable()[0] = std::byte{7};
  GuardedSecret<4> second = std::move(first);
  EXPECT_EQ(second.view()[0], std::byte{7});
  EXPECT_TRUE(first.view().empty());
}

}  // namespace
}  // namespace gpunode::security
