// What is told of a served model: to all nodes, by the directory, and to whoever had it served.
#pragma once

#include "actors/inference/detail/serving_state.hpp"

namespace gpunode::inference::detail {

nlohmann::json facts_told(const Serving& serving, const ModelFacts& facts);
// What whoever asked for it is told more of it than the others.
nlohmann::json told_to_asker(const ClusterSnapshot& cluster, const std::string& name,
                             const Serving& serving, const ModelFacts& facts);

}  // namespace gpunode::inference::detail
