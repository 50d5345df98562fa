#include "tests/fuzz/fuzz_entry.hpp"

#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>

namespace {

// Of what was allocated by new; one thread.
struct Meter {
  std::size_t now = 0, most = 0;
  void add(std::size_t bytes) {
    now += bytes;
    if (now > most) most = now;
  }
};
Meter meter;

void* take(std::size_t bytes, std::size_t alignment) {
  if (bytes == 0) bytes = 1;
  void* memory =
      alignment <= alignof(std::max_align_t)
          ? std::malloc(bytes)
          : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (!memory) throw std::bad_alloc();
  meter.add(malloc_usable_size(memory));
  return memory;
}

void give(void* memory) {
  if (!memory) return;
  meter.now -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t bytes) {
  return take(bytes, 1);
}
void* operator new[](std::size_t bytes) {
  return take(bytes, 1);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return take(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return take(bytes, static_cast<std::size_t>(alignment));
}
// libFuzzer's own, which it gives back by delete.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return take(bytes, 1);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new[](std::size_t bytes, const std::nothrow_t& nothrow) noexcept {
  return operator new(bytes, nothrow);
}
void operator delete(void* memory) noexcept {
  give(memory);
}
void operator delete[](void* memory) noexcept {
  give(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  give(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  give(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  give(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  give(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  give(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  give(memory);
}

namespace gpunode::fuzz {
namespace {

const Target* chosen = nullptr;

[[noreturn]] void leave(int code, const std::string& text) {
  std::fprintf(code == 0 ? stdout : stderr, "%s", text.c_str());
  std::fflush(nullptr);
  std::_Exit(code);
}

void write_corpus() {
  for (const Target& target : targets()) {
    std::filesystem::create_directories(corpus_of(target));
    int number = 0;
    for (const Bytes& seed : target.seeds()) {
      std::ofstream out(corpus_of(target) + "/" + std::to_string(number++), std::ios::binary);
      out.write(reinterpret_cast<const char*>(seed.data()),
                static_cast<std::streamsize>(seed.size()));
      if (!out.flush()) leave(1, "gpunode-fuzz: cannot write " + corpus_of(target) + "\n");
    }
  }
}

}  // namespace

const std::vector<Target>& targets() {
  static const std::vector<Target> all = [] {
    std::vector<Target> joined;
    for (auto* some : {link_targets, join_targets, cluster_targets, job_targets, file_targets,
                       front_targets, form_targets, machine_targets})
      for (const Target& one : some()) joined.push_back(one);
    return joined;
  }();
  return all;
}

const Target* find_target(std::string_view name) {
  for (const Target& target : targets())
    if (target.name == name) return &target;
  return nullptr;
}

void choose(const Target& target) {
  chosen = &target;
}

Orders read_orders(int argc, char** argv) {
  const std::string first = argc > 1 ? argv[1] : "";
  if (first == "--list") {
    std::string names;
    for (const Target& target : targets()) names += std::string(target.name) + "\n";
    leave(0, names);
  }
  if (first == "--write-corpus") {
    write_corpus();
    leave(0, "");
  }
  Orders orders{find_target(first), {argv + std::min(argc, 2), argv + argc}};
  if (!orders.target)
    leave(2,
          "usage: gpunode-fuzz --list | --write-corpus | TARGET [FILE...]\n"
          "  TARGET alone: replays its corpus, then fuzzes for GPUNODE_FUZZ_SECONDS (1)\n"
          "  FILE: replays these\n");
  choose(*orders.target);
  return orders;
}

double seconds() {
  const char* text = std::getenv("GPUNODE_FUZZ_SECONDS");
  return text ? std::atof(text) : 1.0;
}

std::string corpus_of(const Target& target) {
  return std::string(GPUNODE_SOURCE_DIR "/tests/fuzz/corpus/") + std::string(target.name);
}

std::string crash_folder() {
  std::filesystem::create_directories(GPUNODE_FUZZ_CRASHES);
  return GPUNODE_FUZZ_CRASHES;
}

}  // namespace gpunode::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpunode::fuzz;
  const std::size_t before = meter.now;
  meter.most = before;
  chosen->run({reinterpret_cast<const std::byte*>(data), size});
  const std::size_t most = meter.most - before;
  const std::size_t bound = chosen->base_bytes + chosen->factor * size;
  GPUNODE_CHECK(most <= bound, std::to_string(most) + " bytes were allocated at one time for " +
                                   std::to_string(size) + " of input; bound " +
                                   std::to_string(bound));
  return 0;
}
