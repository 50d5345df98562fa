// What the two drivers share: ours (fuzz_driver.cpp) and libFuzzer, where clang is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/fuzz_target.hpp"

namespace gpunode::fuzz {

const std::vector<Target>& targets();
// Null: there is none of that name.
const Target* find_target(std::string_view name);
// To be run by LLVMFuzzerTestOneInput from here on.
void choose(const Target& target);

// The driver's orders: `--list`, `--write-corpus`, or a target and the inputs to replay. Exits the
// process where there is nothing to be run.
struct Orders {
  const Target* target = nullptr;
  std::vector<std::string> files;  // empty: fuzz
};
Orders read_orders(int argc, char** argv);

double seconds();                             // how long, by GPUNODE_FUZZ_SECONDS
std::string corpus_of(const Target& target);  // folder, in the source tree
std::string crash_folder();                   // made if it is not there

}  // namespace gpunode::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
