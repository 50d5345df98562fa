#include "tools/gpunode/token_source.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "runtime/storage/file_system.hpp"
#include "tools/gpunode/answer.hpp"

namespace gpunode::cli {
namespace {

constexpr std::size_t kLongestBytes = 8192;

std::string take_from_environment() {
  char* value = std::getenv(kTokenVariable);
  if (!value) return {};
  std::string token = value;
  explicit_bzero(value, std::strlen(value));  // other programs of ours can read the first value
  unsetenv(kTokenVariable);
  return token;
}

std::string trimmed(const std::string& text) {
  constexpr const char* kBlanks = " \t\r\n";
  std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

Result<std::string> read_all(int file, const std::string& name) {
  std::string text;
  char buffer[1024];
  for (;;) {
    ssize_t got = read(file, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return storage::error_of_errno(errno, "cannot read the token from", name);
    if (got == 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > kLongestBytes)
      return Error{ErrorCode::invalid_argument, name + " is too long for a token: it holds " +
                                                    "something else; name the file with the line "
                                                    "that `gpunode token create` printed"};
  }
  explicit_bzero(buffer, sizeof buffer);
  text = trimmed(text);
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
  if (file.empty()) return trimmed(from_environment);
  explicit_bzero(from_environment.data(), from_environment.size());
  if (file == "-") return read_all(STDIN_FILENO, "standard input");
  int opened = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (opened < 0) return storage::error_of_errno(errno, "cannot read the token file", file);
  warn_of_readers(opened, file);
  auto token = read_all(opened, file);
  close(opened);
  return token;
}

}  // namespace gpunode::cli
