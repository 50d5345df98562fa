// What a command of the gpunode program is. The table in commands.cpp lists all of them; parsing,
// help, completion, the description in JSON and the documentation are made from that table alone.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/node/node.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::cli {

enum ExitCode : int {
  kOk = 0,
  kFailed = 1,  // the thing failed; cause and remedy are on standard error
  kUsage = 2,   // the command line itself is wrong
  kNoNode = 3,  // no node runs with that state directory
  // Of `job wait`: the job has been stopped; it goes on still.
  kStopped = 4,
  kTimedOut = 5
};

struct Flag {
  std::string name;   // "--state"
  std::string value;  // what it takes, "DIR"; empty for a switch
  std::string text;
  bool repeatable = false;
  std::string letter = {};  // "-d"; empty: none
};

struct Operand {
  std::string name;  // "JOB"
  std::string text;
  bool required = true;
};

// What a person typed after the command.
class Arguments {
 public:
  void add(const std::string& name, std::string value) {
    values_[name].push_back(std::move(value));
  }
  void clear(const std::string& name) { values_.erase(name); }
  bool has(const std::string& name) const { return values_.contains(name); }
  std::string text(const std::string& name, const std::string& fallback = "") const;
  std::vector<std::string> all(const std::string& name) const;

  // Fail with invalid_argument naming the flag and what it takes.
  Result<std::uint64_t> whole(const std::string& name, std::uint64_t fallback,
                              std::uint64_t smallest, std::uint64_t largest) const;
  Result<double> real(const std::string& name, double fallback, double smallest,
                      double largest) const;
  Result<std::chrono::milliseconds> duration(const std::string& name,
                                             std::chrono::milliseconds fallback) const;

 private:
  std::map<std::string, std::vector<std::string>> values_;
};

// What the program takes from outside; the test-only binary brings its own.
struct Platform {
  std::function<Result<std::unique_ptr<Node>>(NodeConfig)> start_node;
};

struct Command;
struct Invocation {
  const Command* command = nullptr;
  Arguments arguments;
  const Platform* platform = nullptr;

  bool json() const { return arguments.has("--json"); }
  // The state directory: --state, else $GPUNODE_STATE, else ~/.local/state/gpunode; absolute.
  std::string state() const;
};

struct Command {
  std::string name;  // one or two words
  std::string summary;
  std::string details;
  std::vector<Operand> operands;
  std::vector<Flag> flags;
  int (*run)(const Invocation&) = nullptr;
  std::vector<std::string> aliases = {};  // what people who know other programs try first
};

const std::vector<Command>& commands();

// Runs the program; returns its exit code. Never throws.
int run_program(int argc, char** argv, const Platform& platform);

}  // namespace gpunode::cli
