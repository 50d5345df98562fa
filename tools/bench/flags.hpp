// The flags that a benchmark declares, read from its words.
#pragma once

#include <CLI/CLI.hpp>

namespace gpunode::bench {

// False where a word is no flag or a value is none of its flag's. Of two values the last one counts,
// but where a flag takes a list.
inline bool parsed(CLI::App& flags, int argc, char** argv) {
  for (CLI::Option* flag : flags.get_options())
    if (flag->get_items_expected_max() == 1)
      flag->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  try {
    flags.parse(argc, argv);
  } catch (const CLI::ParseError&) {
    return false;
  }
  return true;
}

}  // namespace gpunode::bench
