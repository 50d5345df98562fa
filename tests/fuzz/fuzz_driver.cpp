// Our own driver, for where libFuzzer is not: replays the corpus, then mutates it from a seed
// (GPUNODE_FUZZ_SEED; the same one gives the same inputs) until the time is up. It sees no coverage,
// so what it finds is near the corpus. An input that ends the process is saved, with the one command
// that replays it. An input that takes ten seconds counts as one.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "runtime/base/digest.hpp"
#include "runtime/base/rng.hpp"
#include "tests/fuzz/fuzz_entry.hpp"

extern "C" void __sanitizer_set_death_callback(void (*)()) __attribute__((weak));

namespace gpunode::fuzz {
namespace {

constexpr std::size_t kMostBytes = 64 * 1024;
constexpr unsigned kMostSeconds = 10;

Bytes running;  // the input under way

void save_running() {
  static bool saved = false;
  if (std::exchange(saved, true)) return;
  const std::string name = crash_folder() + "/" + digest_of(running).text();
  std::ofstream(name, std::ios::binary)
      .write(reinterpret_cast<const char*>(running.data()),
             static_cast<std::streamsize>(running.size()));
  std::fprintf(stderr, "gpunode-fuzz: this input is saved as %s; to replay it: %s\n", name.c_str(),
               (std::string(std::getenv("GPUNODE_FUZZ_REPLAY")) + " " + name).c_str());
}

void on_signal(int signal) {
  if (signal == SIGALRM) std::fprintf(stderr, "gpunode-fuzz: an input takes too long\n");
  save_running();
  std::signal(signal, SIG_DFL);
  std::raise(signal == SIGALRM ? SIGABRT : signal);
}

void run(Bytes input) {
  running = std::move(input);
  alarm(kMostSeconds);
  // A copy of just this size, so that a sanitizer sees what is read behind its end.
  const std::vector<std::uint8_t> exact(
      reinterpret_cast<const std::uint8_t*>(running.data()),
      reinterpret_cast<const std::uint8_t*>(running.data()) + running.size());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
  alarm(0);
}

Bytes read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (in.bad() || !std::filesystem::is_regular_file(path)) {
    std::fprintf(stderr, "gpunode-fuzz: cannot read %s\n", path.c_str());
    std::exit(2);
  }
  return text_bytes(text);
}

// Where numbers stand in a message: aligned more often than not.
std::size_t place(Rng& rng, const Bytes& bytes, std::size_t width) {
  const std::size_t at = rng.below(bytes.size() - width + 1);
  return rng.chance(0.7) ? at / width * width : at;
}

void put_number(Rng& rng, Bytes& bytes) {
  const std::size_t width = std::size_t{1} << rng.below(4);
  if (bytes.size() < width) return;
  const std::uint64_t numbers[] = {0,          1,
                                   2,          0x7f,
                                   0x80,       0xff,
                                   0x7fff,     0xffff,
                                   0x7fffffff, 0x80000000,
                                   0xffffffff, ~0ull,
                                   1ull << 63, bytes.size(),
                                   rng.next(), rng.below(64)};
  const std::uint64_t value = numbers[rng.below(std::size(numbers))];
  std::memcpy(bytes.data() + place(rng, bytes, width), &value, width);
}

// FlatBuffers: all elements of what may be a vector of offsets point to where its first one does. No
// encoder of ours does so, and what is small on the wire may then be large in memory.
void share_offsets(Rng& rng, Bytes& bytes) {
  if (bytes.size() < 16) return;
  for (int tries = 0; tries < 64; ++tries) {
    const std::size_t at = rng.below(bytes.size() / 4 - 2) * 4;
    std::uint32_t count = 0, first = 0;
    std::memcpy(&count, bytes.data() + at, 4);
    std::memcpy(&first, bytes.data() + at + 4, 4);
    if (count < 2 || count > 4096 || at + 4 + 4 * std::size_t{count} > bytes.size()) continue;
    if (first < 4 * count || at + 4 + first >= bytes.size()) continue;
    for (std::uint32_t i = 1; i < count; ++i) {
      const std::uint32_t offset = first - 4 * i;
      std::memcpy(bytes.data() + at + 4 + 4 * i, &offset, 4);
    }
    return;
  }
}

void mutate_once(Rng& rng, Bytes& bytes, const std::vector<Bytes>& corpus) {
  const auto cut = [&](std::size_t most) {
    const std::size_t begin = rng.below(bytes.size() + 1);
    return std::pair(begin, begin + rng.below(std::min(most, bytes.size() - begin) + 1));
  };
  switch (rng.below(9)) {
    case 0:
      if (!bytes.empty()) bytes[rng.below(bytes.size())] ^= std::byte(1 << rng.below(8));
      return;
    case 1:
      if (!bytes.empty()) bytes[rng.below(bytes.size())] = std::byte(rng.next() & 0xff);
      return;
    case 2:
    case 3:
      return put_number(rng, bytes);
    case 4: {
      const auto [begin, end] = cut(64);
      bytes.erase(bytes.begin() + begin, bytes.begin() + end);
      return;
    }
    case 5: {
      const auto [begin, end] = cut(256);
      const Bytes again(bytes.begin() + begin, bytes.begin() + end);
      bytes.insert(bytes.begin() + rng.below(bytes.size() + 1), again.begin(), again.end());
      return;
    }
    case 6: {
      const Bytes& other = corpus[rng.below(corpus.size())];
      const auto [begin, end] = cut(bytes.size());
      if (other.empty()) return;
      const std::size_t from = rng.below(other.size());
      const std::size_t count = 1 + rng.below(other.size() - from);
      bytes.erase(bytes.begin() + begin, bytes.begin() + end);
      bytes.insert(bytes.begin() + begin, other.begin() + from, other.begin() + from + count);
      return;
    }
    case 7:
      return share_offsets(rng, bytes);
    default:
      bytes.resize(rng.below(bytes.size() + 1));
  }
}

int fuzz(const Target& target) {
  std::vector<Bytes> corpus;
  for (const auto& entry : std::filesystem::directory_iterator(corpus_of(target)))
    corpus.push_back(read_file(entry.path()));
  std::sort(corpus.begin(), corpus.end());
  if (corpus.empty()) {
    std::fprintf(stderr, "gpunode-fuzz: no corpus in %s\n", corpus_of(target).c_str());
    return 2;
  }
  for (const Bytes& input : corpus) run(input);
  const char* chosen = std::getenv("GPUNODE_FUZZ_SEED");
  const std::uint64_t seed = chosen ? std::strtoull(chosen, nullptr, 10) : 1;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds());
  std::uint64_t runs = 0;
  while (std::chrono::steady_clock::now() < end) {
    Rng rng(mix(seed, ++runs));
    Bytes input = corpus[rng.below(corpus.size())];
    for (std::uint64_t i = 1 + rng.below(6); i > 0; --i) mutate_once(rng, input, corpus);
    if (input.size() > kMostBytes) input.resize(kMostBytes);
    run(std::move(input));
  }
  std::printf("%s: corpus of %zu, %llu mutations from seed %llu\n",
              std::string(target.name).c_str(), corpus.size(),
              static_cast<unsigned long long>(runs), static_cast<unsigned long long>(seed));
  return 0;
}

}  // namespace
}  // namespace gpunode::fuzz

int main(int argc, char** argv) {
  using namespace gpunode::fuzz;
  const Orders orders = read_orders(argc, argv);
  const std::string replay = std::string(argv[0]) + " " + argv[1];
  setenv("GPUNODE_FUZZ_REPLAY", replay.c_str(), 1);
  crash_folder();
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM})
    std::signal(signal, on_signal);
  if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(save_running);
  for (const std::string& file : orders.files) run(read_file(file));
  return orders.files.empty() ? fuzz(*orders.target) : 0;
}
