// How an operator names the devices of a node.
#pragma once

#include <set>
#include <string>

#include "runtime/base/result.hpp"

namespace gpunode::node {

struct DeviceChoice {
  bool uses_gpus = false;
  bool is_must = false;         // a GPU that is wanted and cannot be used is a failure
  std::set<int> ordinals = {};  // none: all
};

// "auto", "cpu", "cuda" or "cuda:0,2". Fails with: invalid_argument.
Result<DeviceChoice> parse_devices(const std::string& text);

}  // namespace gpunode::node
