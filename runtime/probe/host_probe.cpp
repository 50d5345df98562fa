#include "runtime/probe/host_probe.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

namespace gpunode::probe {

namespace {

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::vector<std::string> lines;
  std::ifstream in(path);
  for (std::string line; lines.size() < 100'000 && std::getline(in, line);)
    lines.push_back(std::move(line));
  return lines;
}

std::optional<std::uint64_t> number_in(std::string_view text) {
  const auto start = text.find_first_of("0123456789");
  if (start == std::string_view::npos) return std::nullopt;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + start, text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  return value;
}

// What this process may still map under its own limit (ulimit -v); nothing where there is none.
std::optional<std::uint64_t> address_space_left(const std::filesystem::path& proc) {
  constexpr std::string_view kLimit = "Max address space";
  std::uint64_t limit = 0, used_pages = 0;
  for (const std::string& line : lines_of(proc / "self" / "limits")) {
    if (!line.starts_with(kLimit)) continue;
    std::istringstream words(line.substr(kLimit.size()));
    if (!(words >> limit)) return std::nullopt;  // "unlimited"
  }
  std::ifstream told(proc / "self" / "statm");
  if (limit == 0 || !(told >> used_pages)) return std::nullopt;
  const std::uint64_t used = used_pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return limit > used ? limit - used : 0;
}

}  // namespace

ProcHostProbe::ProcHostProbe(std::filesystem::path state_directory, std::filesystem::path proc)
    : state_directory_(std::move(state_directory)), proc_(std::move(proc)) {}

HostSample ProcHostProbe::sample(Time now) {
  HostSample sample;
  sample_cpu(sample);
  sample_memory(sample);
  sample_disk(sample);
  sample_network(now, sample);
  return sample;
}

void ProcHostProbe::sample_cpu(HostSample& sample) {
  int count = 0;
  for (const std::string& line : lines_of(proc_ / "stat")) {
    if (!line.starts_with("cpu")) continue;
    if (!line.starts_with("cpu ")) {
      ++count;
      continue;
    }
    // user nice system idle iowait irq softirq steal; guest time is part of user.
    std::istringstream fields(line.substr(4));
    CpuTimes now;
    std::uint64_t value = 0;
    int field = 0;
    for (; field < 8 && fields >> value; ++field) {
      now.total += value;
      if (field != 3 && field != 4) now.busy += value;
    }
    if (field < 4) continue;
    if (last_cpu_ && now.total > last_cpu_->total && now.busy >= last_cpu_->busy)
      sample.cpu_load = static_cast<double>(now.busy - last_cpu_->busy) /
                        static_cast<double>(now.total - last_cpu_->total);
    last_cpu_ = now;
  }
  if (count > 0) sample.cpu_count = count;
  for (const std::string& line : lines_of(proc_ / "cpuinfo")) {
    if (!line.starts_with("model name")) continue;
    const auto colon = line.find(": ");
    if (colon != std::string::npos) sample.cpu_model = line.substr(colon + 2);
    break;
  }
  std::ifstream load(proc_ / "loadavg");
  if (double value = 0; load >> value) sample.load_average = value;
  for (const std::string& line : lines_of(proc_ / "pressure/cpu")) {
    constexpr std::string_view kShare = "some avg10=";
    if (!line.starts_with(kShare)) continue;
    std::istringstream share(line.substr(kShare.size()));
    if (double percent = 0; share >> percent) sample.cpu_pressure = percent / 100;
  }
}

void ProcHostProbe::sample_memory(HostSample& sample) const {
  for (const std::string& line : lines_of(proc_ / "meminfo")) {
    const bool total = line.starts_with("MemTotal:");
    if (!total && !line.starts_with("MemAvailable:")) continue;
    const auto kib = number_in(line);
    if (!kib) continue;
    (total ? sample.memory_total_bytes : sample.memory_available_bytes) = *kib * 1024;
  }
  const auto left = address_space_left(proc_);
  if (left && sample.memory_available_bytes)
    sample.memory_available_bytes = std::min(*left, *sample.memory_available_bytes);
}

void ProcHostProbe::sample_disk(HostSample& sample) const {
  std::error_code error;
  const auto space = std::filesystem::space(state_directory_, error);
  if (error) return;
  sample.disk_total_bytes = space.capacity;
  sample.disk_free_bytes = space.available;
}

std::string machine_text(const std::filesystem::path& proc) {
  const std::vector<std::string> lines = lines_of(proc / "sys" / "kernel" / "random" / "boot_id");
  return lines.empty() ? std::string() : lines.front();
}

void ProcHostProbe::sample_network(Time now, HostSample& sample) {
  std::optional<NetworkBytes> total;
  for (const std::string& line : lines_of(proc_ / "net" / "dev")) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const auto start = line.find_first_not_of(' ');
    if (line.substr(start, colon - start) == "lo") continue;
    // bytes packets errs drop fifo frame compressed multicast, then the same for sending
    std::istringstream fields(line.substr(colon + 1));
    std::vector<std::uint64_t> values;
    for (std::uint64_t value = 0; fields >> value;) values.push_back(value);
    if (values.size() < 9) continue;
    if (!total) total.emplace();
    total->received += values[0];
    total->sent += values[8];
  }
  const double seconds = std::chrono::duration<double>(now - last_network_time_).count();
  if (total && last_network_ && seconds > 0 && total->received >= last_network_->received &&
      total->sent >= last_network_->sent) {
    sample.received_bytes_per_second =
        static_cast<double>(total->received - last_network_->received) / seconds;
    sample.sent_bytes_per_second = static_cast<double>(total->sent - last_network_->sent) / seconds;
  }
  last_network_ = total;
  last_network_time_ = now;
}

}  // namespace gpunode::probe
