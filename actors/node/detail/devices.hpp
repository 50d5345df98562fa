// The devices of a node, and how an operator names them.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kernels/ops/backend.hpp"

namespace gpunode::node {

struct Devices {
  std::unique_ptr<ops::Backend> host;  // the CPU: the exchange adds what arrives in host memory
  std::vector<std::unique_ptr<ops::Backend>> gpus;

  // What jobs and models compute on, never none.
  std::vector<ops::Backend*> computing() const {
    std::vector<ops::Backend*> list;
    for (const auto& gpu : gpus) list.push_back(gpu.get());
    if (list.empty()) list.push_back(host.get());
    return list;
  }
};

struct DeviceChoice {
  bool uses_gpus = false;
  bool is_must = false;    // a GPU that is wanted and cannot be used is a failure
  std::set<int> ordinals;  // none: all
};

// "auto", "cpu", "cuda" or "cuda:0,2". Fails with: invalid_argument.
Result<DeviceChoice> parse_devices(const std::string& text);

}  // namespace gpunode::node
