// What a node is started with, and where each value comes from. In this order: a flag, gpunode.toml
// in the state directory (or --config FILE), what an earlier start was told (name, labels,
// addresses, where metrics are), the default. One table of settings; flags, keys of the file and
// `gpunode config` follow from it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "actors/node/node.hpp"
#include "tools/gpunode/command.hpp"

namespace gpunode::cli {

enum class Source { flag, file, earlier, fallback };
std::string to_string(Source source);  // "flag", "gpunode.toml", "an earlier start", "default"

class NodeSettings {
 public:
  static constexpr const char* kFile = "gpunode.toml";

  struct Value {
    std::string key, flag;  // "name", "--name"
    std::vector<std::string> values;
    Source source = Source::fallback;
  };

  // Of `up`, `join` and `config`. Fails with invalid_argument: the file is no TOML, an unknown key or
  // section (naming the nearest), a value of another type, all with their line; a file that was named
  // and is not there.
  static Result<NodeSettings> read(const Invocation& invocation);

  const std::vector<Value>& all() const { return values_; }
  // The invocation's words with those of file and earlier starts where no flag was given.
  const Arguments& arguments() const { return arguments_; }
  // Data sets that the node offers to jobs, by name, with absolute paths.
  const std::map<std::string, DataOffer>& data_sets() const { return data_sets_; }
  const std::string& file() const { return file_; }  // that was read; empty: there is none
  // Names the file where a wrong value is from there.
  Error explained(Error error) const;

  // What the next start knows without being told again. Fails as writing does.
  Result<void> remember() const;
  // Nothing of earlier starts is known any more.
  static Result<void> forget(const std::string& state);

 private:
  Result<void> read_file(const std::string& path);
  Result<void> read_earlier();
  void add_flags();
  Result<void> add_data_flags();

  std::string state_, file_;
  std::vector<Value> values_;
  Arguments arguments_;
  std::map<std::string, DataOffer> data_sets_;
};

}  // namespace gpunode::cli
