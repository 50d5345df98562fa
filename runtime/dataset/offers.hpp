// Which files of this machine jobs may read, and whose jobs. The node's owner offers files and
// folders under names (`[data.NAME]` in gpunode.toml), and a job names them. A path of a job's own
// choosing is read at the one node at which the job was submitted: there whoever sits at the node has
// named it. Who may not use an offer is told the same as of one that does not exist, before any file
// is looked at. What is read is read through ConfinedFiles.
// Owner: the node; immutable, any thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/ids.hpp"
#include "runtime/base/result.hpp"
#include "runtime/storage/file_system.hpp"

namespace gpunode::dataset {

struct Offer {
  storage::Path path;  // of a file or a folder
  // Whose jobs may read it, beside this node's own; nothing: those of every node that may submit.
  std::optional<std::vector<NodeId>> users = {};
};

// What a job names, by one of two keys of its file.
struct NamedFiles {
  std::string path_key, path;  // "data.path"
  std::string set_key, set;    // "data.set"
  // The one of the two that the job uses.
  const std::string& key() const { return set.empty() ? path_key : set_key; }
};

// Whose job it is: a node's, and whether this is that node and the job was submitted here.
struct JobOwner {
  NodeId node;
  bool here = false;
};

struct OfferedFiles {
  std::shared_ptr<const storage::FileSystem> files;
  storage::Path path;  // in them: as people are told of it
};

class Offers {
 public:
  struct Options {
    storage::Path state;  // the node's state directory, of which nothing is ever offered
    std::map<std::string, Offer> sets = {};
  };
  explicit Offers(Options options) : options_(std::move(options)) {}

  // Whether they are offered to that owner's jobs; looks at no file. Fails with: not_found (no such
  // set, for that owner), permission_denied (a path, of a job that was submitted elsewhere).
  Result<void> check(const NamedFiles& named, const JobOwner& owner) const;
  // Opens what is offered. Fails as check() does, and as opening it does.
  Result<OfferedFiles> open(const NamedFiles& named, const JobOwner& owner) const;

 private:
  Options options_;
};

}  // namespace gpunode::dataset
