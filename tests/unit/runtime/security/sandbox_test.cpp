// Each case confines a child process, as it is for good; the child says what did not hold.
#include "runtime/security/sandbox.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <thread>

#include "runtime/storage/posix_file_system.hpp"
#include "tests/support/temporary_folder.hpp"

namespace gpunode::security {
namespace {

using storage::Path;

#define HOLDS(condition)                                                \
  do {                                                                  \
    if (!(condition)) {                                                 \
      std::fprintf(stderr, "line %d: %s (%m)\n", __LINE__, #condition); \
      return false;                                                     \
    }                                                                   \
  } while (false)

class Sandbox : public ::testing::Test {
 protected:
  Sandbox() {
    std::filesystem::create_directories(inside() / "a");
    std::filesystem::create_directories(inside() / "b");
    EXPECT_TRUE(files_.write_atomic(outside(), {as_bytes("text")}).has_value());
  }
  Path inside() const { return folder_.path() / "inside"; }
  Path outside() const { return folder_.path() / "outside"; }
  SandboxRules rules() const { return {.writable = {inside(), "/dev/null"}, .executable = {}}; }
  // Whether all of it held, in a process of its own.
  static bool in_child(const std::function<bool()>& body) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(body() ? 0 : 1);
    int status = -1;
    return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  static bool opens(const Path& path, int flags) {
    const int file = ::open(path.c_str(), flags | O_CLOEXEC, 0600);
    if (file >= 0) ::close(file);
    return file >= 0;
  }
  // How a program ends that a child of its own starts; -1: it cannot be started.
  static int run(const char* program, const char* word = nullptr) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv("LSAN_OPTIONS", "detect_leaks=0", 1);  // a sanitizer would trace it for that
      ::execl(program, program, word, nullptr);
      ::_exit(99);
    }
    int status = -1;
    if (::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -2;
    return WEXITSTATUS(status) == 99 ? -1 : WEXITSTATUS(status);
  }
  testing::TemporaryFolder folder_;
  storage::PosixFileSystem files_;
};

#define SKIP_WITHOUT(part) \
  if (!sandbox_of_kernel().part) GTEST_SKIP() << sandbox_of_kernel().lacks

TEST_F(Sandbox, whatTheKernelOffersIsWhatComesIntoForce) {
  EXPECT_TRUE(in_child([&] {
    const SandboxState offered = sandbox_of_kernel(), got = enter_sandbox(rules());
    HOLDS(got.files == offered.files && got.calls == offered.calls && got.lacks == offered.lacks);
    return true;
  }));
}

TEST_F(Sandbox, writesGoNowhereButToTheFoldersThatWereNamed) {
  SKIP_WITHOUT(files);
  EXPECT_TRUE(in_child([&] {
    HOLDS(enter_sandbox(rules()).files);
    HOLDS(files_.write_atomic(inside() / "a/file", {as_bytes("1")}).has_value());
    HOLDS(::rename((inside() / "a/file").c_str(), (inside() / "b/file").c_str()) == 0);
    HOLDS(files_.remove(inside() / "b").has_value());
    HOLDS(opens("/dev/null", O_WRONLY));
    HOLDS(files_.read(outside(), 10).has_value());  // what may be read may still be read
    for (const int flags : {O_WRONLY, O_RDWR, O_RDONLY | O_TRUNC})
      HOLDS(!opens(outside(), flags) && errno == EACCES);
    HOLDS(!opens(folder_.path() / "new", O_WRONLY | O_CREAT) && errno == EACCES);
    HOLDS(::unlink(outside().c_str()) != 0 && errno == EACCES);
    HOLDS(::mkdir((folder_.path() / "d").c_str(), 0700) != 0 && errno == EACCES);
    HOLDS(::symlink("/etc", (folder_.path() / "l").c_str()) != 0 && errno == EACCES);
    HOLDS(::rename(outside().c_str(), (inside() / "o").c_str()) != 0);
    // A link out of the folder leads nowhere.
    HOLDS(::symlink(outside().c_str(), (inside() / "l").c_str()) == 0);
    HOLDS(!opens(inside() / "l", O_WRONLY) && errno == EACCES);
    return true;
  }));
  EXPECT_EQ(as_text(*files_.read(outside(), 10)), "text");
}

TEST_F(Sandbox, theSocketOfTheStateDirectoryCanBeMade) {
  SKIP_WITHOUT(files);
  EXPECT_TRUE(in_child([&] {
    HOLDS(enter_sandbox(rules()).files);
    const int door = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un place{};
    place.sun_family = AF_UNIX;
    std::snprintf(place.sun_path, sizeof place.sun_path, "%s", (inside() / "s").c_str());
    HOLDS(::bind(door, reinterpret_cast<sockaddr*>(&place), sizeof place) == 0);
    return true;
  }));
}

TEST_F(Sandbox, noProgramIsStartedButThoseThatWereNamed) {
  SKIP_WITHOUT(files);
  ASSERT_EQ(run("/bin/true"), 0);
  EXPECT_TRUE(in_child([&] {
    SandboxRules allowed = rules();
    allowed.executable = {std::filesystem::canonical("/bin/true"), "/no/such/program"};
    HOLDS(enter_sandbox(allowed).files);
    HOLDS(run("/bin/true") == 0);
    HOLDS(run("/bin/false") == -1);
    HOLDS(run("/proc/self/exe", "--gtest_filter=none") == 0);  // itself, as a start anew does
    // Nor what it wrote itself.
    std::filesystem::copy_file("/bin/true", inside() / "true");
    HOLDS(run((inside() / "true").c_str()) == -1);
    return true;
  }));
}

TEST_F(Sandbox, callsThatANodeNeverMakesAreRefused) {
  SKIP_WITHOUT(calls);
  EXPECT_TRUE(in_child([&] {
    HOLDS(enter_sandbox(rules()).calls);
    HOLDS(::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0 && errno == EPERM);
    HOLDS(::unshare(CLONE_NEWUSER) != 0 && errno == EPERM);
    HOLDS(::mount("none", inside().c_str(), "tmpfs", 0, nullptr) != 0 && errno == EPERM);
    HOLDS(::syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0) == -1 && errno == EPERM);
    HOLDS(::syscall(SYS_clone3, nullptr, 0) == -1 && errno == ENOSYS);
    for (const int call : {SYS_bpf, SYS_finit_module, SYS_userfaultfd, SYS_io_uring_setup})
      HOLDS(::syscall(call, 0, 0, 0, 0, 0) == -1 && errno == EPERM);
    bool ran = false;
    std::thread([&] { ran = true; }).join();
    HOLDS(ran);
    HOLDS(run("/proc/self/exe", "--gtest_filter=none") == 0);
    return true;
  }));
}

TEST_F(Sandbox, withoutItTheSameCallsFailForOtherReasonsOrNotAtAll) {
  EXPECT_TRUE(in_child([&] {
    HOLDS(::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0);
    HOLDS(::syscall(SYS_clone3, nullptr, 0) == -1 && errno != ENOSYS);
    HOLDS(opens(outside(), O_WRONLY));
    return true;
  }));
}

TEST_F(Sandbox, threadsOfLaterAreConfinedToo) {
  SKIP_WITHOUT(files);
  EXPECT_TRUE(in_child([&] {
    HOLDS(enter_sandbox(rules()).files);
    bool opened = true;
    std::thread([&] { opened = opens(outside(), O_WRONLY); }).join();
    HOLDS(!opened);
    return true;
  }));
}

TEST_F(Sandbox, aStartAnewInsideStaysInside) {
  SKIP_WITHOUT(files);
  EXPECT_TRUE(in_child([&] {
    for (int time = 0; time < 20; ++time) HOLDS(enter_sandbox(rules()).files);
    HOLDS(!opens(outside(), O_WRONLY));
    HOLDS(opens(inside() / "new", O_WRONLY | O_CREAT));
    return true;
  }));
}

TEST(SandboxText, saysWhatIsInForceAndWhatIsNot) {
  EXPECT_EQ(to_text({true, true, ""}), "writes and system calls are confined");
  EXPECT_EQ(to_text({false, true, "why"}), "system calls are confined, writes are not: why");
  EXPECT_EQ(to_text({true, false, "why"}), "writes are confined, system calls are not: why");
  EXPECT_EQ(to_text({false, false, "why"}), "nothing is confined: why");
}

}  // namespace
}  // namespace gpunode::security
