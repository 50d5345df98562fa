// What the numbers mean by which NVIDIA's driver reports critical errors of a GPU, its Xids, and
// which of them condemn the device. One table, so that whoever wonders about a verdict finds its
// grounds in one place. Pure.
// Source: NVIDIA, "Analyzing Xid Errors with the Xid Catalog", docs.nvidia.com/deploy/xid-errors:
// a device is condemned by what its column of immediate actions answers with a reset of the GPU, a
// restart of the machine, or a procedure for errors of memory and links. What it answers with a
// restart of the application, or with nothing, leaves the device in service.
#pragma once

#include <optional>
#include <string>

namespace gpunode::probe {

struct XidMeaning {
  bool condemns = false;  // the device is to get no more work
  std::string text;       // number, meaning, and what to try
};

// Nothing for numbers that the table lacks, which condemn no device.
std::optional<XidMeaning> meaning_of_xid(unsigned number);

}  // namespace gpunode::probe
