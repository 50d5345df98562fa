#include "tests/support/fault_hooks.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

#include "actors/compute/device_roster.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/registry.hpp"
#include "runtime/base/fault_point.hpp"
#include "runtime/base/pci_bus_id.hpp"
#include "runtime/storage/posix_file_system.hpp"
#include "tests/support/fault_file_system.hpp"
#include "tests/support/grouping_backend.hpp"

namespace gpunode::testing {
namespace {

constexpr int kBadVariable = 64, kExitCode = 9;

struct Strike {
  bool kill = true;
  std::string point;
  std::uint64_t first = 0, last = UINT64_MAX;  // steps
  std::string when;                            // a file that must be there; empty: none
};
struct Pace {
  std::chrono::milliseconds each{0};
  std::string point;
  std::string file;  // slow while it is there
};
Strike* strike = nullptr;  // all set once, before any thread
Pace* pace = nullptr;
std::string* orders = nullptr;
std::mutex held_mutex;
std::string held_point;  // threads that come there hang; empty: none

bool is_there(const std::string& file) {
  return access(file.c_str(), F_OK) == 0;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

[[noreturn]] void refuse(const char* name) {
  std::fprintf(stderr, "gpunode-faulty: cannot read %s=%s\n", name, variable(name).c_str());
  _exit(kBadVariable);
}

template <class Number>
Number number_of(const char* name, std::string_view text) {
  Number value{};
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size()) refuse(name);
  return value;
}

void note(const std::string& line) {
  std::string file = variable("GPUNODE_FAULT_LOG");
  if (file.empty()) return;
  int log = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  std::string text = std::to_string(getpid()) + " " + line + "\n";
  if (log < 0 || write(log, text.data(), text.size()) < 0 || fsync(log) != 0) _exit(kBadVariable);
  close(log);
}

[[noreturn]] void die() {
  ::kill(getpid(), SIGKILL);
  for (;;) pause();
}

// A file that begins with a number says the milliseconds itself.
void keep_pace() {
  int file = open(pace->file.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  char text[16];
  ssize_t size = read(file, text, sizeof text);
  close(file);
  unsigned told = 0;
  bool number = size > 0 && std::from_chars(text, text + size, told).ec == std::errc{};
  std::this_thread::sleep_for(number ? std::chrono::milliseconds(told) : pace->each);
}

// "<verb>@<point>"; empty: none.
std::string read_order() {
  int file = open(orders->c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return "";
  char buffer[100];
  ssize_t size = read(file, buffer, sizeof buffer);
  close(file);
  std::string order(buffer, size > 0 ? static_cast<std::size_t>(size) : 0);
  while (order.ends_with('\n')) order.pop_back();
  return order;
}

// Whether threads that are at this point are to stand still, which lasts until the order to go on.
bool is_held(std::string_view point, std::uint64_t step) {
  std::lock_guard lock(held_mutex);
  if (held_point != point) return false;
  if (read_order() != "go@" + held_point) return true;
  (void)unlink(orders->c_str());
  note("go " + held_point + " " + std::to_string(step));
  held_point.clear();
  return false;
}

void hold(const std::string& point) {
  std::lock_guard lock(held_mutex);
  held_point = point;
}

// Two threads may come by: who removes the file carries the order out.
void follow_order(std::string_view here, std::uint64_t step) {
  const std::string order = read_order();
  const std::size_t at = order.find('@');
  if (at == order.npos || order.substr(at + 1) != here) return;
  const std::string verb = order.substr(0, at), point(here);
  if (verb == "go") return;  // see is_held
  if (unlink(orders->c_str()) != 0) return;
  note(verb + " " + point + " " + std::to_string(step));
  if (verb == "kill") die();
  if (verb == "exit") _exit(kExitCode);
  if (verb == "hang") return hold(point);
  if (verb != "stop") refuse("GPUNODE_FAULT_ORDERS");
  ::kill(getpid(), SIGSTOP);
}

void on_fault_point(std::string_view point, std::uint64_t step) {
  if (pace && point == pace->point) keep_pace();
  if (orders) follow_order(point, step);
  while (orders && is_held(point, step)) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  if (!strike || point != strike->point || step < strike->first || step > strike->last) return;
  if (!strike->when.empty() && !is_there(strike->when)) return;
  note(std::string(strike->kill ? "kill " : "exit ") + std::string(point) + " " +
       std::to_string(step));
  if (strike->kill) die();
  _exit(kExitCode);
}

// "kill@compute:12"
void install_strike(const std::string& text) {
  std::size_t at = text.find('@'), colon = text.rfind(':');
  if (at == std::string::npos || colon == std::string::npos || colon < at) refuse("GPUNODE_FAULT");
  static Strike planned;
  std::string verb = text.substr(0, at), step = text.substr(colon + 1);
  if (verb != "kill" && verb != "exit") refuse("GPUNODE_FAULT");
  planned.kill = verb == "kill";
  planned.point = text.substr(at + 1, colon - at - 1);
  bool or_later = step.ends_with('+');
  if (or_later) step.pop_back();
  if (step != "*") {
    planned.first = number_of<std::uint64_t>("GPUNODE_FAULT", step);
    if (!or_later) planned.last = planned.first;
  }
  planned.when = variable("GPUNODE_FAULT_WHEN");
  strike = &planned;
  fault_hook = on_fault_point;
}

void install_pace(const std::string& text) {
  static Pace planned;
  planned.each = std::chrono::milliseconds(number_of<unsigned>("GPUNODE_FAULT_PACE_MS", text));
  planned.point = variable("GPUNODE_FAULT_PACE_AT");
  if (planned.point.empty()) planned.point = "commit";
  planned.file = variable("GPUNODE_FAULT_PACE_WHILE");
  pace = &planned;
  fault_hook = on_fault_point;
}

void install_orders(const std::string& file) {
  static std::string planned;
  planned = file;
  orders = &planned;
  fault_hook = on_fault_point;
}

class SkewedClock final : public Clock {
 public:
  explicit SkewedClock(std::chrono::seconds skew) : skew_(skew) {}
  Time now() const override { return below_.now(); }
  std::chrono::system_clock::time_point wall() const override { return below_.wall() + skew_; }

 private:
  SystemClock below_;
  std::chrono::seconds skew_;
};

// A disk that is full for new files whose path contains a part; all else is the real one.
class FullDisk final : public storage::FileSystem {
 public:
  using Path = storage::Path;
  FullDisk(std::uint64_t bytes, std::string part) : part_(std::move(part)) {
    full_.disk_full_after(bytes);
  }
  Result<std::unique_ptr<storage::WritableFile>> write_new(const Path& path) override {
    bool hit = path.native().find(part_) != std::string::npos;
    return hit ? full_.write_new(path) : real_.write_new(path);
  }
  Result<std::unique_ptr<storage::ReadableFile>> open(const Path& path) const override {
    return real_.open(path);
  }
  Result<void> rename(const Path& from, const Path& to) override { return real_.rename(from, to); }
  Result<void> sync_folder(const Path& folder) override { return real_.sync_folder(folder); }
  Result<void> create_folder(const Path& folder) override { return real_.create_folder(folder); }
  Result<void> make_private(const Path& folder) override { return real_.make_private(folder); }
  Result<std::vector<storage::Entry>> list(const Path& folder) const override {
    return real_.list(folder);
  }
  Result<storage::Entry> inspect(const Path& path) const override { return real_.inspect(path); }
  Result<void> remove(const Path& path) override { return real_.remove(path); }
  Result<std::uint64_t> free_bytes(const Path& path) const override {
    return real_.free_bytes(path);
  }
  Result<std::unique_ptr<storage::FileLock>> lock(const Path& path) override {
    return real_.lock(path);
  }

 private:
  storage::PosixFileSystem real_;
  FaultFileSystem full_{real_};
  std::string part_;
};

// The model kind "own" is gpt, unless this node's code of it is to differ from that of others.
void register_own_model(const std::string& layers) {
  auto factory = [layers](const model::Settings& settings) {
    model::Settings changed = settings;
    if (!layers.empty()) changed["layers"] = layers;
    return model::make_model("gpt", changed);
  };
  (void)model::register_model("own", factory);
  if (!layers.empty()) note("model_layers " + layers);
}

// "cuda:0@0000:01:00.0,cuda:1@0000:c1:00.0"
std::function<void(compute::DeviceRoster&)> devices_of(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> devices;  // id, place
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    const std::size_t at = one.find('@');
    if (at == one.npos || at == 0 || !normal_pci_bus_id(one.substr(at + 1)))
      refuse("GPUNODE_FAULT_DEVICES");
    devices.emplace_back(one.substr(0, at), one.substr(at + 1));
  }
  return [devices](compute::DeviceRoster& roster) {
    for (const auto& [id, place] : devices) roster.add(id, cpu::open_backend(), place);
  };
}

}  // namespace

FaultyParts install_faults() {
  FaultyParts parts;
  if (std::string text = variable("GPUNODE_FAULT"); !text.empty()) install_strike(text);
  if (std::string text = variable("GPUNODE_FAULT_ORDERS"); !text.empty()) install_orders(text);
  if (std::string text = variable("GPUNODE_FAULT_PACE_MS"); !text.empty()) install_pace(text);
  if (std::string text = variable("GPUNODE_FAULT_CLOCK_SKEW"); !text.empty()) {
    auto skew = number_of<std::int64_t>("GPUNODE_FAULT_CLOCK_SKEW", text);
    static SkewedClock clock{std::chrono::seconds(skew)};
    parts.clock = &clock;
    note("clock_skew " + text);
  }
  register_own_model(variable("GPUNODE_FAULT_MODEL_LAYERS"));
  parts.version = variable("GPUNODE_FAULT_VERSION");
  if (!parts.version.empty()) note("version " + parts.version);
  if (!variable("GPUNODE_FAULT_GROUPS").empty())
    parts.add_devices = [](compute::DeviceRoster& devices) {
      devices.add("group:0", open_grouping_backend());
    };
  if (std::string text = variable("GPUNODE_FAULT_DEVICES"); !text.empty())
    parts.add_devices = devices_of(text);
  if (std::string text = variable("GPUNODE_FAULT_DISK_FULL_AFTER"); !text.empty()) {
    static FullDisk disk(number_of<std::uint64_t>("GPUNODE_FAULT_DISK_FULL_AFTER", text),
                         variable("GPUNODE_FAULT_DISK_FULL_IN"));
    parts.files = &disk;
  }
  return parts;
}

}  // namespace gpunode::testing
