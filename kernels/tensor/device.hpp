// Device: which processor a buffer, a stream or a program belongs to.
#pragma once

#include <string>

namespace gpunode::tensor {

enum class DeviceKind { cpu, cuda };

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  std::string name;  // for people, e.g. "NVIDIA H100" or "cpu"
};

}  // namespace gpunode::tensor
