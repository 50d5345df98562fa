#include "tools/gpunode/token_source.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "runtime/storage/file_system.hpp"
#include "tools/gpunode/answer.hpp"

namespace gpunode::cli {
namespace {

constexpr std::size_t kLongestBytes = 8192;
constexpr std::size_t kReadBytes = 1024;

constexpr const char* kBlanks = " \t\r\n";

void wipe(std::string& text) {
  explicit_bzero(text.data(), text.size());
}

std::string take_from_environment() {
  char* value = std::getenv(kTokenVariable);
  if (!value) return {};
  std::string token = value;
  explicit_bzero(value, std::strlen(value));  // other programs of ours can read the first value
  unsetenv(kTokenVariable);
  return token;
}

// In place, so that no copy of a token stays behind.
void trim(std::string& text) {
  text.erase(0, std::min(text.size(), text.find_first_not_of(kBlanks)));
  text.erase(text.find_last_not_of(kBlanks) + 1);
}

Result<std::string> read_all(int file, const std::string& name) {
  std::string text;
  text.reserve(kLongestBytes + kReadBytes);
  char buffer[kReadBytes];
  for (;;) {
    ssize_t got = read(file, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return storage::error_of_errno(errno, "cannot read the token from", name);
    if (got == 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > kLongestBytes) {
      wipe(text);
      explicit_bzero(buffer, sizeof buffer);
      return Error{ErrorCode::invalid_argument, name + " is too long for a token: it holds " +
                                                    "something else; name the file with the line "
                                                    "that `gpunode token create` printed"};
    }
  }
  explicit_bzero(buffer, sizeof buffer);
  trim(text);
  if (text.empty())
    return Error{
        ErrorCode::invalid_argument,
        name + " holds no token: make one with `gpunode token create` on a node that is up"};
  return text;
}

void warn_of_readers(int file, const std::string& name) {
  struct stat status {};
  if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && (status.st_mode & 077) != 0)
    warn("others on this machine can read the token in " + name + ": `chmod 600 " + name + "`");
}

}  // namespace

Result<std::string> take_token(const std::string& file) {
  std::string from_environment = take_from_environment();
  if (file.empty()) {
    trim(from_environment);
    return from_environment;
  }
  wipe(from_environment);
  if (file == "-") return read_all(STDIN_FILENO, "standard input");
  int opened = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (opened < 0) return storage::error_of_errno(errno, "cannot read the token file", file);
  warn_of_readers(opened, file);
  auto token = read_all(opened, file);
  close(opened);
  return token;
}

}  // namespace gpunode::cli
