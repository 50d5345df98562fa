// The data sets of a node's configuration, as the parts that read them take them.
#pragma once

#include <map>
#include <string>

#include "actors/node/node.hpp"
#include "runtime/dataset/offers.hpp"

namespace gpunode::node {

// Fails with invalid_argument: a name that no job file could hold, a path that is empty, whose jobs may
// read it.
Result<std::map<std::string, dataset::Offer>> parse_offers(
    const std::map<std::string, DataOffer>& data_sets);

}  // namespace gpunode::node
