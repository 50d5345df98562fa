#include "actors/inference/detail/serving_told.hpp"

#include <algorithm>

#include "actors/inference/detail/part_orders.hpp"
#include "actors/json_answer.hpp"

namespace gpunode::inference::detail {

using nlohmann::json;

namespace {

// Live nodes that serve another version under the name.
std::vector<std::string> others_that_differ(const ClusterSnapshot& cluster,
                                            const std::string& model, const std::string& digest) {
  std::vector<std::string> names;
  for (const OfferedVersion& offer : offered_versions(cluster, model))
    if (offer.version.digest != digest)
      for (const NodeId& holder : offer.holders)
        if (holder != cluster.self) names.push_back(cluster.name_of(holder));
  return names;
}

// Whether a node of those that serve that version tells of a draft, which lies on that node.
bool others_have_a_draft(const ClusterSnapshot& cluster, const std::string& model,
                         const std::string& digest) {
  return std::ranges::any_of(cluster.entries, [&](const DirectoryEntry& entry) {
    if (entry.key != call_name(model) || entry.owner == cluster.self) return false;
    const json told = arguments_of(std::string(as_text(entry.value)));
    return version_in(told).digest == digest && !field<std::string>(told, "draft", "").empty();
  });
}

}  // namespace

json facts_told(const Serving& serving, const ModelFacts& facts) {
  json told = {
      {"digest", facts.digest}, {"weights", facts.weights}, {"version", serving.version.number}};
  if (facts.step > 0) told["step"] = facts.step;  // a file does not say of which it is
  if (!serving.source.job.empty()) told["job"] = serving.source.job;
  if (!facts.draft.empty()) told["draft"] = facts.draft;
  if (!serving.source.part.empty()) told["part"] = serving.source.part;
  if (serving.source.deterministic) told["deterministic"] = true;
  return told;
}

json told_to_asker(const ClusterSnapshot& cluster, const std::string& name, const Serving& serving,
                   const ModelFacts& facts) {
  json told = serving.told;
  if (auto others = others_that_differ(cluster, name, facts.digest); !others.empty())
    told["differs_from"] = std::move(others);
  if (serving.source.copy && facts.draft.empty() &&
      others_have_a_draft(cluster, name, facts.digest))
    told["draft_left_out"] = true;
  if (auto missing = missing_parts(cluster, name, serving.source.part, facts.digest);
      !missing.empty())
    told["missing_parts"] = std::move(missing);
  told["model"] = name;
  told["path"] = serving.source.path;
  told["description"] = facts.description;
  return told;
}

}  // namespace gpunode::inference::detail
