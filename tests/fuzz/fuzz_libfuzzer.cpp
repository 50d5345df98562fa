// The orders of gpunode-fuzz (fuzz_entry.hpp) as flags of libFuzzer, which is its main. What it finds
// on its way is kept in the build tree, and is where the next run begins.
#include <filesystem>

#include "tests/fuzz/fuzz_entry.hpp"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  using namespace gpunode::fuzz;
  const Orders orders = read_orders(*argc, *argv);
  static std::vector<std::string> words;
  words = {(*argv)[0], "-artifact_prefix=" + crash_folder() + "/", "-timeout=10",
           "-rss_limit_mb=3000"};
  if (orders.files.empty()) {
    const std::string found =
        GPUNODE_FUZZ_CRASHES "/../fuzz-found/" + std::string(orders.target->name);
    std::filesystem::create_directories(found);
    words.push_back("-max_total_time=" + std::to_string(static_cast<int>(seconds() + 0.5)));
    words.insert(words.end(), {"-max_len=65536", "-print_final_stats=1", "-verbosity=0", found,
                               corpus_of(*orders.target)});
  }
  words.insert(words.end(), orders.files.begin(), orders.files.end());
  static std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  *argc = static_cast<int>(words.size());
  *argv = pointers.data();
  return 0;
}
