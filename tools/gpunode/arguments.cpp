// Typed access to what a person typed after a command, and the state directory that it names.
#include "tools/gpunode/command.hpp"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "tools/gpunode/text.hpp"

namespace gpunode::cli {

std::string Arguments::text(const std::string& name, const std::string& fallback) const {
  auto it = values_.find(name);
  return it == values_.end() || it->second.empty() ? fallback : it->second.back();
}

std::vector<std::string> Arguments::all(const std::string& name) const {
  auto it = values_.find(name);
  return it == values_.end() ? std::vector<std::string>{} : it->second;
}

Result<std::uint64_t> Arguments::whole(const std::string& name, std::uint64_t fallback,
                                       std::uint64_t smallest, std::uint64_t largest) const {
  if (!has(name)) return fallback;
  const auto value = parse_number(text(name), smallest, largest);
  if (!value)
    return Error{ErrorCode::invalid_argument,
                 name + " wants a whole number from " + std::to_string(smallest) + " to " +
                     std::to_string(largest) + ", not '" + text(name) + "'"};
  return *value;
}

Result<double> Arguments::real(const std::string& name, double fallback, double smallest,
                               double largest) const {
  if (!has(name)) return fallback;
  const auto value = parse_number(text(name), smallest, largest);
  if (!value)
    return Error{ErrorCode::invalid_argument,
                 name + " wants a number from " + decimal(smallest, 3) + " to " +
                     decimal(largest, 3) + ", not '" + text(name) + "'"};
  return *value;
}

Result<std::chrono::milliseconds> Arguments::duration(const std::string& name,
                                                      std::chrono::milliseconds fallback) const {
  if (!has(name)) return fallback;
  auto parsed = parse_duration(text(name));
  if (!parsed) return Error{ErrorCode::invalid_argument, name + " " + parsed.error().detail};
  return parsed;
}

std::string Invocation::state() const {
  std::string given = arguments.text("--state");
  if (given.empty())
    if (const char* set = std::getenv("GPUNODE_STATE")) given = set;
  if (given.empty()) {
    const char* home = std::getenv("HOME");
    if (!home || !*home) {
      const passwd* self = getpwuid(getuid());
      home = self ? self->pw_dir : "/";
    }
    given = std::string(home) + "/.local/state/gpunode";
  }
  std::error_code failure;
  auto path = std::filesystem::absolute(given, failure).lexically_normal();
  if (!failure && !path.has_filename()) path = path.parent_path();
  return failure ? given : path.string();
}

}  // namespace gpunode::cli
