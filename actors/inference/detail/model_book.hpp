// What models are served from, and which versions of them there are in the cluster. A version is a number
// under the model's name and the digest of its content: the same content keeps its number, another one gets
// the next of all that were seen, so that no number stands for two contents. Every node that serves a model
// says its version in the directory ("model/<name>"), and is called as "model/<name>" and, by who wants this
// version alone, as "model/<name>@<number>". Pure.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/cluster_state.hpp"

namespace gpunode::inference {

struct ModelSource {
  std::string path;          // of a stored model
  std::string job;           // id, whose newest checkpoint it is
  std::string weights;       // the format that is asked for; empty: as they are stored
  bool copy = false;         // as others serve it, taken from them
  std::uint64_t pinned = 0;  // of a copy: this version alone; 0: always the newest
  std::string part = {};     // "2/3" (part_name.hpp); empty: all of it
  std::uint64_t idle_seconds =
      0;                       // without a request, after which its memory is given back; 0: never
  std::string draft = {};      // path of a smaller model that guesses for it; empty: none
  bool deterministic = false;  // its texts have the same bits alone and among others, on any device
};

struct ModelVersion {
  std::uint64_t number = 0;
  std::string digest;

  bool operator==(const ModelVersion&) const = default;
};

struct OfferedVersion {
  ModelVersion version;
  std::vector<NodeId>
      holders;            // live nodes that may serve, and have it in memory; no head of parts
  bool is_whole = false;  // somebody has all of it, in memory or asleep
};

// As others find it. `model` may name a version, "<name>@<number>".
std::string call_name(const std::string& model);
std::string pinned_call_name(const std::string& model, std::uint64_t version);

// Of the model, the newest first; of one number the larger digest.
std::vector<OfferedVersion> offered_versions(const ClusterSnapshot& cluster,
                                             const std::string& model);
// Of each model the newest version that a node says, or said before it went.
std::map<std::string, ModelVersion> newest_versions(const ClusterSnapshot& cluster);
// The one that a copy is to be of; null: nobody serves it.
const OfferedVersion* wanted_of(const std::vector<OfferedVersion>& offers, std::uint64_t pinned);
// What content of this digest is called, where the node itself knew it as `known`. `anew`: as the newest in
// any case.
std::uint64_t number_for(const std::vector<OfferedVersion>& offers, const std::string& digest,
                         const std::vector<ModelVersion>& known, bool anew);

// As they stand in the file of what is served; "at": where it was loaded from.
nlohmann::json to_json(const ModelSource& source, const ModelVersion& version);
ModelSource source_in(const nlohmann::json& kept);
ModelVersion version_in(const nlohmann::json& kept);

// Fails with invalid_argument: letters that would not go well in tables, commands or keys.
Result<void> check_model_name(const std::string& name);

}  // namespace gpunode::inference
