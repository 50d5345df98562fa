#include "tools/gpunode/doctor_checks.hpp"

#include <dlfcn.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "runtime/probe/gpu_probe.hpp"
#include "runtime/security/sandbox.hpp"
#include "runtime/storage/posix_file_system.hpp"
#include "runtime/storage/state_directory.hpp"
#include "tools/gpunode/text.hpp"

namespace gpunode::cli {
namespace {

using Grade = Finding::Grade;

// What the CUDA twins are built against, and the first driver that has it.
constexpr int kLeastCuda = GPUNODE_CUDA_MAJOR * 1000;
constexpr int kLeastDriver = GPUNODE_CUDA_MAJOR >= 13 ? 580 : 525;
constexpr std::time_t kRelease = 1'760'000'000;  // October 2025: this code did not exist before

Finding ok(std::string subject, std::string text) {
  return {std::move(subject), Grade::ok, std::move(text), ""};
}
Finding warn(std::string subject, std::string text, std::string remedy) {
  return {std::move(subject), Grade::warn, std::move(text), std::move(remedy)};
}
Finding fail(std::string subject, std::string text, std::string remedy) {
  return {std::move(subject), Grade::fail, std::move(text), std::move(remedy)};
}

// The CUDA version that the driver offers, as 12040 for 12.4; 0 without a driver.
int driver_cuda() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return 0;
  int version = 0;
  using Ask = int (*)(int*);
  if (auto ask = reinterpret_cast<Ask>(dlsym(library, "cuDriverGetVersion"));
      !ask || ask(&version) != 0)
    version = 0;
  dlclose(library);
  return version;
}

std::string cuda_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

bool can_open(const std::string& library) {
  void* opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened) dlclose(opened);
  return opened != nullptr;
}

// 0 when the port can be listened on, else the errno; -1 when the host does not resolve.
int try_port(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const char* node = host.empty() || host == "*" ? nullptr : host.c_str();
  if (getaddrinfo(node, std::to_string(port).c_str(), &hints, &found) != 0) return -1;
  int result = 0;
  int door = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int on = 1;
  if (door >= 0) setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (door < 0 || bind(door, found->ai_addr, found->ai_addrlen) != 0 || listen(door, 1) != 0)
    result = errno;
  if (door >= 0) close(door);
  freeaddrinfo(found);
  return result;
}

std::filesystem::path existing_above(std::filesystem::path path) {
  std::error_code failure;
  while (!std::filesystem::exists(path, failure) && path.has_relative_path())
    path = path.parent_path();
  return path;
}

}  // namespace

std::string to_string(Finding::Grade grade) {
  static constexpr const char* kNames[] = {"ok", "warn", "fail"};
  return kNames[static_cast<std::size_t>(grade)];
}

bool has_gpu() {
  return !probe::open_nvml_probe()->sample().empty();
}

Finding check_driver(bool built_with_cuda) {
  auto probe = probe::open_nvml_probe();
  auto gpus = probe->sample();
  int cuda = driver_cuda();
  if (gpus.empty()) {
    std::string reason = probe->absent_reason();
    return ok("driver", (reason.empty() ? "the driver shows no GPU" : reason) +
                            "; this machine computes on the CPU");
  }
  std::string seen = std::to_string(gpus.size()) + " GPU(s), driver " +
                     probe->driver_version().value_or("?") + ", CUDA up to " +
                     (cuda > 0 ? cuda_text(cuda) : "?");
  if (!built_with_cuda)
    return warn("driver", seen + "; but this build has no CUDA and computes on the CPU",
                "build with the preset `cuda` where nvcc 12 or newer is");
  if (cuda == 0)
    return fail("driver", seen + "; libcuda.so.1 cannot be opened",
                "install the driver's compute library (Debian: libcuda1)");
  if (cuda < kLeastCuda)
    return fail("driver", seen + "; this build needs CUDA " + cuda_text(kLeastCuda),
                "install a newer driver (" + std::to_string(kLeastDriver) + " or later)");
  const std::string products = "libcublasLt.so." + std::to_string(GPUNODE_CUDA_MAJOR);
  if (!can_open(products) && !can_open("/usr/local/cuda/lib64/" + products))
    return warn(
        "driver", seen + "; " + products + " is not found, so products run on slower kernels",
        "install cuBLAS " + std::to_string(GPUNODE_CUDA_MAJOR) + ", or put it on LD_LIBRARY_PATH");
  return ok("driver", seen);
}

Finding check_ports(const std::string& host, int port, bool node_runs) {
  if (port == 0) return ok("ports", "free ones are taken");
  std::string taken;
  static constexpr const char* kUse[] = {"control", "bulk", "join"};
  for (int i = 0; i < 3; ++i) {
    int failure = try_port(host, port + i);
    if (failure == 0) continue;
    if (failure == -1)
      return fail("ports", "'" + host + "' is no address of this machine",
                  "give an address of this machine with --listen, or 0.0.0.0");
    taken += (taken.empty() ? "" : ", ") + std::to_string(port + i) + " (" + kUse[i] +
             "): " + std::strerror(failure);
  }
  std::string range = std::to_string(port) + " to " + std::to_string(port + 2);
  if (taken.empty()) return ok("ports", range + " are free");
  if (node_runs) return ok("ports", "in use while this node runs: " + taken);
  return fail("ports", "not free: " + taken,
              "end what listens there (`ss -ltnp` names it), or choose others with --listen");
}

Finding check_clock() {
  if (std::time(nullptr) < kRelease)
    return fail("clock", "the clock is years behind", "set it: `timedatectl set-ntp true`");
  timex state{};
  int answer = adjtimex(&state);
  if (answer < 0) return ok("clock", "set; whether it is synchronised cannot be asked here");
  if (answer == TIME_ERROR || (state.status & STA_UNSYNC))
    return warn("clock", "not synchronised by the system",
                "join tokens need clocks that agree within minutes: `timedatectl set-ntp true`");
  return ok("clock", "synchronised, error at most " +
                         human_duration(static_cast<double>(state.maxerror) / 1e6));
}

Finding check_disk(const std::string& state) {
  std::filesystem::path place = existing_above(state);
  struct statvfs disk {};
  if (statvfs(place.c_str(), &disk) != 0)
    return fail("disk", place.string() + ": " + std::strerror(errno), "name another --state");
  double free = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  std::string text = human_bytes(free) + " free for " + state;
  if (free < 256.0 * (1 << 20))
    return fail("disk", text, "free some space: checkpoints will not fit");
  if (free < 4.0 * (1 << 30))
    return warn("disk", text, "checkpoints of larger models will not fit: free some space");
  return ok("disk", text);
}

Finding check_open_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return warn("open files", std::strerror(errno), "check `ulimit -n`");
  std::string text =
      limit.rlim_cur == RLIM_INFINITY ? "no limit" : "at most " + std::to_string(limit.rlim_cur);
  if (limit.rlim_cur < 256) return fail("open files", text, "raise it: `ulimit -n 65536`");
  if (limit.rlim_cur < 1024)
    return warn("open files", text + ": too few for large clusters", "raise it: `ulimit -n 65536`");
  return ok("open files", text);
}

Finding check_locked_memory(bool gpu) {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0)
    return warn("locked memory", std::strerror(errno), "check `ulimit -l`");
  if (limit.rlim_cur == RLIM_INFINITY) return ok("locked memory", "no limit");
  std::string text = "at most " + human_bytes(static_cast<double>(limit.rlim_cur));
  if (gpu && limit.rlim_cur < (64u << 20))
    return warn("locked memory", text + ": little for copies to a GPU",
                "raise it: `ulimit -l unlimited` (LimitMEMLOCK= of a service)");
  return ok("locked memory", text);
}

Finding check_proc() {
  std::string missing;
  for (const char* name : {"stat", "meminfo", "loadavg", "net/dev", "cpuinfo"})
    if (!std::ifstream(std::string("/proc/") + name).good())
      missing += (missing.empty() ? "" : ", ") + std::string("/proc/") + name;
  if (missing.empty()) return ok("/proc", "readable");
  return warn("/proc", "cannot be read: " + missing,
              "figures of this machine will be unknown: mount /proc");
}

Finding check_sandbox() {
  const security::SandboxState state = security::sandbox_of_kernel();
  std::string text = "while a node runs, " + security::to_text(state);
  if (state.files && state.calls) return ok("sandbox", std::move(text));
  return warn(
      "sandbox", std::move(text),
      "a kernel of 5.19 or later with Landlock in its `lsm=` confines both; the systemd unit "
      "(tools/systemd) confines them in another way");
}

Finding check_state(const std::string& state, bool node_runs) {
  const char* kSubject = "state directory";
  std::size_t length = state.size() + std::strlen("/node.sock");
  if (length > storage::StateDirectory::kSocketPathLimitBytes)
    return fail(kSubject,
                state + " is too long for the socket inside it (" + std::to_string(length) +
                    " bytes of " + std::to_string(storage::StateDirectory::kSocketPathLimitBytes) +
                    ")",
                "name a shorter one with --state");
  struct stat status {};
  if (stat(state.c_str(), &status) != 0) {
    std::filesystem::path above = existing_above(state);
    if (access(above.c_str(), W_OK | X_OK) != 0)
      return fail(kSubject, state + " cannot be made: " + above.string() + " is not writable",
                  "name another one with --state");
    return ok(kSubject, state + " will be made by the first `gpunode up`");
  }
  if (!S_ISDIR(status.st_mode))
    return fail(kSubject, state + " is not a folder", "name another one with --state");
  if (status.st_uid != geteuid())
    return fail(kSubject, state + " belongs to another user", "name another one with --state");
  if (access(state.c_str(), R_OK | W_OK | X_OK) != 0)
    return fail(kSubject, state + ": " + std::strerror(errno), "`chmod u+rwx " + state + "`");
  storage::PosixFileSystem files;
  auto format = files.read(std::filesystem::path(state) / "format", 64);
  std::string wanted = "gpunode state " + std::to_string(storage::StateDirectory::kFormat) + "\n";
  if (format && as_text(*format) != wanted)
    return fail(kSubject, state + " was made by another version, or its file `format` is damaged",
                "use that version, or name another one with --state");
  if (!format && !std::filesystem::is_empty(state))
    return fail(kSubject, state + " is a folder that gpunode did not make",
                "name an empty or new one with --state");
  if ((status.st_mode & 077) != 0)
    return warn(kSubject, state + " is open to other users", "`chmod 700 " + state + "`");
  if (!node_runs && storage::StateDirectory::in_use(files, state))
    return warn(
        kSubject, state + ": a process holds it that does not answer",
        "it is stopped, starting, or has too much to do: `fuser " + state + "/lock` names it");
  return ok(kSubject,
            state + (node_runs ? ": a node runs with it" : ": fine, no node runs with it"));
}

}  // namespace gpunode::cli
