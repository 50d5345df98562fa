// Where a device sits on the PCI bus, in one form of text: the key that joins what NVML says of a
// GPU to the GPU that CUDA computes on, as their numberings differ. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gpunode {

// "0000:0A:00.0", "00000000:0a:00.0" and "0a:00" name one place: domain of eight hex digits, bus and
// device of two, function of one, in small letters. Nothing where the text names no place.
std::optional<std::string> normal_pci_bus_id(std::string_view text);

}  // namespace gpunode
