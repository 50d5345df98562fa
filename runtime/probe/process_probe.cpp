#include "runtime/probe/process_probe.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

namespace gpunode::probe {
namespace {

// The words behind a line's name; empty where there is no such line.
std::istringstream line_of(const std::filesystem::path& path, std::string_view name) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(name)) return std::istringstream(line.substr(name.size()));
  std::istringstream none;
  none.setstate(std::ios::failbit);
  return none;
}

template <class Number>
std::optional<Number> next(std::istream& words) {
  Number value{};
  if (!(words >> value)) return std::nullopt;
  return value;
}

// Each entry of the folder is an open file; the one that reads it is left out.
std::optional<std::uint64_t> open_files(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  if (error) return std::nullopt;
  std::uint64_t count = 0;
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) ++count;
  return count > 0 ? count - 1 : 0;
}

}  // namespace

ProcessSample sample_process(const std::filesystem::path& proc) {
  ProcessSample sample;
  std::ifstream file(proc / "self" / "stat");
  std::string text;
  std::getline(file, text);
  // The name of the program, in brackets, may hold anything; behind it the third field begins.
  const auto name_end = text.rfind(')');
  std::vector<std::string> fields;
  if (name_end != std::string::npos) {
    std::istringstream words(text.substr(name_end + 1));
    fields.assign(std::istream_iterator<std::string>(words), {});
  }
  const auto field = [&](std::size_t number) {  // as proc(5) counts them
    return std::strtod(fields[number - 3].c_str(), nullptr);
  };
  constexpr std::size_t kUser = 14, kSystem = 15, kStart = 22, kVirtual = 23, kResidentPages = 24;
  if (fields.size() + 3 > kResidentPages) {
    const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
    sample.cpu_seconds = (field(kUser) + field(kSystem)) / ticks;
    sample.virtual_bytes = static_cast<std::uint64_t>(field(kVirtual));
    sample.resident_bytes = static_cast<std::uint64_t>(field(kResidentPages)) *
                            static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    auto booted = line_of(proc / "stat", "btime ");
    if (const auto seconds = next<double>(booted))
      sample.start_unix_seconds = *seconds + field(kStart) / ticks;
  }
  sample.open_files = open_files(proc / "self" / "fd");
  auto limit = line_of(proc / "self" / "limits", "Max open files");
  sample.most_files = next<std::uint64_t>(limit);
  return sample;
}

}  // namespace gpunode::probe
