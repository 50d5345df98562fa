#include "tools/gpunode/node_log.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <cstdio>

namespace gpunode::cli {
namespace {

// Whether standard error is that file already, as it is after a start anew.
bool is_standard_error(const std::string& path) {
  struct stat file {
  }, error{};
  return stat(path.c_str(), &file) == 0 && fstat(STDERR_FILENO, &error) == 0 &&
         file.st_dev == error.st_dev && file.st_ino == error.st_ino;
}

}  // namespace

std::string json_line(const log::Record& record) {
  const nlohmann::ordered_json line = {{"time", log::time_of(record)},
                                       {"level", record.level},
                                       {"area", record.area},
                                       {"text", record.text}};
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

NodeLog::NodeLog(Options options) : options_(options), mirrors_(!options.detaches) {
  log::set_sink([this](const log::Record& record) { take(record); });
}

NodeLog::~NodeLog() {
  log::set_sink(nullptr);
  if (!file_) std::fwrite(unheard_.data(), 1, unheard_.size(), stderr);
}

void NodeLog::take(const log::Record& record) {
  const std::string line = options_.json ? json_line(record) : log::line_of(record);
  // Who waits for the background to begin is to hear what it waits for.
  const bool is_heard = mirrors_ || (!file_ && record.level != "info");
  if (is_heard) std::fwrite(line.data(), 1, line.size(), stderr);
  if (file_) return file_->write(line);
  held_ += line;
  if (!is_heard) unheard_ += line;
}

Result<void> NodeLog::begin(const std::string& state) {
  const std::string path = state + '/' + kFile;
  const bool anew = is_standard_error(path);
  std::fflush(nullptr);
  auto file = storage::LogFile::open({.path = path, .takes_output = options_.detaches || anew});
  if (!file) return file.error();
  log::set_sink(nullptr);  // what is said in between is on standard error
  if (!anew) (*file)->write(held_);
  held_.clear();
  mirrors_ = mirrors_ && !anew;
  file_ = std::move(*file);
  log::set_sink([this](const log::Record& record) { take(record); });
  return {};
}

void NodeLog::reopen() {
  if (!file_) return;
  if (auto done = file_->reopen(); !done)
    log::warning("node", done.error().message());
  else
    log::info("node", "the log was opened anew");
}

}  // namespace gpunode::cli
