// `logs`: what the node of a state directory has said, also when it does not run any more.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/harmless_text.hpp"
#include "runtime/storage/log_file.hpp"
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/node_log.hpp"

namespace gpunode::cli {
namespace {

using nlohmann::json;
using storage::Path;

constexpr auto kLookEvery = std::chrono::milliseconds(200);
constexpr std::size_t kAtOnce = 64 << 10;  // bytes

// A line of the log as JSON, whichever of both it was written as; what libraries print is a text alone.
json parsed(const std::string& line) {
  if (line.starts_with('{'))
    if (json record = json::parse(line, nullptr, false); record.is_object()) return record;
  static const std::regex form(R"((\S+Z) (\S+) +(\S+) +(.*))");
  std::smatch parts;
  if (!std::regex_match(line, parts, form)) return {{"text", line}};
  return {{"time", parts[1]}, {"level", parts[2]}, {"area", parts[3]}, {"text", parts[4]}};
}

bool show(const Invocation& invocation, const std::string& line) {
  // What libraries print is in there, too, as they wrote it.
  const std::string shown =
      (invocation.json() ? harmless_json(text_of(parsed(line))) : harmless(line)) + '\n';
  return std::fwrite(shown.data(), 1, shown.size(), stdout) == shown.size();
}

// The last `most` lines of all files, oldest first; of the newest file its first `newest_bytes`.
std::vector<std::string> last_lines(const std::vector<Path>& files, std::size_t most,
                                    std::uint64_t newest_bytes) {
  std::vector<std::string> lines;
  for (auto file = files.rbegin(); file != files.rend() && lines.size() < most; ++file) {
    std::ifstream stream(*file, std::ios::binary);
    std::uint64_t left = file == files.rbegin() ? newest_bytes : ~std::uint64_t{0};
    std::vector<std::string> own;
    for (std::string line; std::getline(stream, line) && line.size() < left;) {
      left -= line.size() + 1;
      own.push_back(std::move(line));
    }
    const std::size_t wanted = std::min(own.size(), most - lines.size());
    lines.insert(lines.begin(),
                 std::make_move_iterator(own.end() - static_cast<std::ptrdiff_t>(wanted)),
                 std::make_move_iterator(own.end()));
  }
  return lines;
}

// A file that is read on as it grows, and the one that takes its place when it is full.
class Tail {
 public:
  explicit Tail(Path path) : path_(std::move(path)) { open(); }
  // To where the file ends now; how far that is.
  std::uint64_t skip() {
    if (!file_ || std::fseek(file_.get(), 0, SEEK_END) != 0) return 0;
    return static_cast<std::uint64_t>(std::max(0L, std::ftell(file_.get())));
  }
  // Whole lines that have come since; false: the reader is gone.
  bool show_new(const Invocation& invocation) {
    if (!show_rest(invocation)) return false;
    if (!is_another()) return true;
    if (!show_rest(invocation)) return false;  // what came to the old one before it went
    open();
    return show_rest(invocation);
  }

 private:
  void open() {
    file_.reset(std::fopen(path_.c_str(), "rb"));
    struct stat found {};
    inode_ = file_ && fstat(fileno(file_.get()), &found) == 0 ? found.st_ino : 0;
  }
  bool is_another() const {
    struct stat found {};
    return stat(path_.c_str(), &found) == 0 && found.st_ino != inode_;
  }
  bool show_rest(const Invocation& invocation) {
    if (!file_) return true;
    char bytes[kAtOnce];
    std::clearerr(file_.get());
    while (const std::size_t count = std::fread(bytes, 1, sizeof bytes, file_.get()))
      pending_.append(bytes, count);
    std::size_t end;
    while ((end = pending_.find('\n')) != std::string::npos) {
      if (!show(invocation, pending_.substr(0, end))) return false;
      pending_.erase(0, end + 1);
    }
    return std::fflush(stdout) == 0;
  }

  struct Closes {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  Path path_;
  std::unique_ptr<std::FILE, Closes> file_;
  ino_t inode_ = 0;
  std::string pending_;
};

// A node that could not start has said why to whoever started it, and keeps no log.
Error no_log(const Path& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0 && errno != ENOENT && errno != ENOTDIR)
    return storage::error_of_errno(errno, "cannot look for the log", path);
  return {ErrorCode::not_found,
          "there is no log in " + path.parent_path().string() +
              ": no node has been up with this state directory (--state names another one); one "
              "that could not start says why where it was started"};
}

}  // namespace

int run_logs(const Invocation& invocation) {
  const auto most = invocation.arguments.whole("--lines", 100, 0, 1'000'000'000);
  if (!most) return fail(invocation, most.error(), kUsage);
  const Path path = Path(invocation.state()) / NodeLog::kFile;
  const auto files = storage::LogFile::all(path);
  const bool follows = invocation.arguments.has("--follow");
  if (files.empty()) return fail(invocation, no_log(path));
  if (access(files.front().c_str(), R_OK) != 0)
    return fail(invocation, storage::error_of_errno(errno, "cannot read the log", files.front()));
  Tail tail(path);
  for (const std::string& line : last_lines(files, *most, tail.skip()))
    if (!show(invocation, line)) return kOk;
  while (std::fflush(stdout) == 0 && follows && tail.show_new(invocation))
    std::this_thread::sleep_for(kLookEvery);
  return kOk;
}

}  // namespace gpunode::cli
