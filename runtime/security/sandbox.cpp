#include "runtime/security/sandbox.hpp"

#include <fcntl.h>
#include <link.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "runtime/base/descriptor.hpp"
#include "runtime/security/detail/call_filter.hpp"

namespace gpunode::security {
namespace {

// Version 1 refuses every rename from one folder to another, which checkpoints need.
constexpr int kLeastVersion = 2;
constexpr int kTruncateVersion = 3;
constexpr std::uint64_t kTruncate = 1ull << 14;  // younger than the headers that we build with

constexpr std::uint64_t kWriteFile = LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate;
constexpr std::uint64_t kWriteFolder =
    LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |
    LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
    LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER;
// Nobody gets these.
constexpr std::uint64_t kMakeDevice = LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK;

int landlock_version() {
  return static_cast<int>(
      ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION));
}

// Why Landlock is not to be had; empty: it is.
std::string landlock_lacks(int version) {
  if (version >= kLeastVersion) return {};
  if (version < 0 && errno == EOPNOTSUPP) return "Landlock is switched off at boot (lsm=)";
  return "the kernel has no Landlock of version 2 (Linux 5.19 has)";
}

bool allow(const Descriptor& rules, const storage::Path& path, std::uint64_t rights) {
  const Descriptor place(::open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat status;
  if (place.get() < 0 || ::fstat(place.get(), &status) != 0) return errno == ENOENT;
  if (!S_ISDIR(status.st_mode)) rights &= ~kWriteFolder;
  const landlock_path_beneath_attr beneath{rights, place.get()};
  return ::syscall(SYS_landlock_add_rule, rules.get(), LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) ==
         0;
}

// The dynamic linker, which the kernel starts with every program; empty in a static one.
storage::Path own_linker() {
  storage::Path found;
  ::dl_iterate_phdr(
      [](dl_phdr_info* own, std::size_t, void* path) {
        for (int i = 0; i < own->dlpi_phnum; ++i)
          if (own->dlpi_phdr[i].p_type == PT_INTERP)
            *static_cast<storage::Path*>(path) =
                reinterpret_cast<const char*>(own->dlpi_addr + own->dlpi_phdr[i].p_vaddr);
        return 1;  // the first is the program itself
      },
      &found);
  return found;
}

// Empty: done; else why not.
std::string confine_files(const SandboxRules& rules) {
  const int version = landlock_version();
  if (std::string lacks = landlock_lacks(version); !lacks.empty()) return lacks;
  const std::uint64_t unknown = version < kTruncateVersion ? kTruncate : 0;
  landlock_ruleset_attr handled{};
  handled.handled_access_fs =
      (kWriteFile | kWriteFolder | kMakeDevice | LANDLOCK_ACCESS_FS_EXECUTE) & ~unknown;
  const Descriptor made(
      static_cast<int>(::syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0)));
  const auto failed = [](const std::string& what) {
    return "Landlock: " + what + ": " + std::strerror(errno);
  };
  if (made.get() < 0) return failed("no rules");
  for (const storage::Path& path : rules.writable)
    if (!allow(made, path, (kWriteFile | kWriteFolder) & ~unknown)) return failed(path.string());
  std::vector<storage::Path> programs = rules.executable;
  programs.insert(programs.end(), {"/proc/self/exe", own_linker()});
  for (const storage::Path& path : programs)
    if (!path.empty() && !allow(made, path, LANDLOCK_ACCESS_FS_EXECUTE))
      return failed(path.string());
  // E2BIG: it was confined sixteen times before, by starts anew, and stays so.
  if (::syscall(SYS_landlock_restrict_self, made.get(), 0) != 0 && errno != E2BIG)
    return failed("refused");
  return {};
}

SandboxState state_of(std::string files, std::string calls) {
  SandboxState state{files.empty(), calls.empty(), std::move(files)};
  if (!calls.empty()) state.lacks += (state.lacks.empty() ? "" : "; ") + calls;
  return state;
}

}  // namespace

SandboxState sandbox_of_kernel() {
  return state_of(landlock_lacks(landlock_version()), detail::call_filter_lacks());
}

SandboxState enter_sandbox(const SandboxRules& rules) {
  // Programs that it starts gain no rights by their owner; both of the others ask for it.
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    const std::string why = std::string("no_new_privs: ") + std::strerror(errno);
    return {false, false, why};
  }
  std::string files = confine_files(rules);
  return state_of(std::move(files), detail::filter_calls());
}

std::string to_text(const SandboxState& state) {
  if (state.files && state.calls) return "writes and system calls are confined";
  if (!state.files && !state.calls) return "nothing is confined: " + state.lacks;
  return (state.files ? "writes are confined, system calls are not: "
                      : "system calls are confined, writes are not: ") +
         state.lacks;
}

}  // namespace gpunode::security
