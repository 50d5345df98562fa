// How a head reaches the other parts of its model: by the directory, in which each node that has one says so
// ("model/NAME/2/3", with the digest of the whole model), and by calls to it.
#pragma once

#include "actors/inference/part_chain.hpp"
#include "actors/inference/serving_actor.hpp"

namespace gpunode::inference {

// Of the model's parts; `ask` blocks its thread, which is the head's own.
PartAccess part_access(const ServingOptions& options, const std::string& model);

// Of a head ("1/3") of the digest, those that no live node serves, as people write them.
std::vector<std::string> missing_parts(const ClusterSnapshot& cluster, const std::string& model,
                                       const std::string& part, const std::string& digest);

}  // namespace gpunode::inference
