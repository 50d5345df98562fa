#include "runtime/security/detail/call_filter.hpp"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace gpunode::security::detail {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kMachine = AUDIT_ARCH_X86_64;
constexpr std::uint32_t kForeignCalls = 0x40000000;  // x32 numbers its calls from here on
#elif defined(__aarch64__)
constexpr std::uint32_t kMachine = AUDIT_ARCH_AARCH64;
constexpr std::uint32_t kForeignCalls = 0xffffffff;
#endif

constexpr std::uint32_t kNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                      CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

// Each would take a node's process, or its whole machine, further than a node ever goes.
constexpr int kRefused[] = {
    // Other processes' memory, and who looks into this one.
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kcmp,
    SYS_pidfd_getfd,
    SYS_process_madvise,
    SYS_perf_event_open,
    // What is mounted where, and which root is seen.
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_move_mount,
    SYS_open_tree,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_mount_setattr,
    SYS_open_by_handle_at,
    SYS_quotactl,
    SYS_swapon,
    SYS_swapoff,
    // Namespaces: a new one of users is where many attacks on the kernel begin.
    SYS_unshare,
    SYS_setns,
    // Code and memory of the kernel, and calls that reach far into it.
    SYS_bpf,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    // The machine as a whole.
    SYS_reboot,
    SYS_acct,
    SYS_syslog,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_vhangup,
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
#if defined(__x86_64__)
    SYS_iopl,
    SYS_ioperm,
    SYS_modify_ldt,
#endif
};

constexpr std::uint32_t number_at = offsetof(seccomp_data, nr);
constexpr std::uint32_t machine_at = offsetof(seccomp_data, arch);
constexpr std::uint32_t first_argument_at = offsetof(seccomp_data, args);  // its low half

std::vector<sock_filter> program() {
  const auto load = [](std::uint32_t at) -> sock_filter {
    return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at);
  };
  const auto fail = [](int number) -> sock_filter {
    return BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(number));
  };
  // Skips the next one unless the word that was loaded is that, is at least that, has a bit of that.
  const auto if_equal = [](std::uint32_t word) -> sock_filter {
    return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, word, 0, 1);
  };
  const auto if_at_least = [](std::uint32_t word) -> sock_filter {
    return BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, word, 0, 1);
  };
  const auto if_any_of = [](std::uint32_t bits) -> sock_filter {
    return BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1);
  };
  const sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);

  std::vector<sock_filter> all = {load(machine_at),
                                  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kMachine, 1, 0),
                                  fail(EPERM),
                                  load(number_at),
                                  if_at_least(kForeignCalls),
                                  fail(EPERM)};
  for (const int call : kRefused)
    all.insert(all.end(), {if_equal(static_cast<std::uint32_t>(call)), fail(EPERM)});
  // Its flags lie in memory, where a filter cannot look; a library asks for clone then.
  all.insert(all.end(), {if_equal(SYS_clone3), fail(ENOSYS)});
  all.insert(all.end(), {BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0), allow,
                         load(first_argument_at), if_any_of(kNamespaces), fail(EPERM), allow});
  return all;
}

// SPEC_ALLOW: otherwise older kernels slow the whole process down by a guard of the processor.
constexpr unsigned kFlags = SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_SPEC_ALLOW;

}  // namespace

std::string call_filter_lacks() {
  const std::uint32_t action = SECCOMP_RET_ERRNO;
  if (::syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0) return {};
  return "the kernel filters no system calls";
}

std::string filter_calls() {
  std::vector<sock_filter> all = program();
  const sock_fprog filter{static_cast<unsigned short>(all.size()), all.data()};
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, kFlags, &filter) == 0) return {};
  return std::string("the filter of system calls is refused: ") + std::strerror(errno);
}

}  // namespace gpunode::security::detail
