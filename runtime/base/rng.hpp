// Random numbers without hidden state. `mix` maps a key and a counter to 64 well-mixed bits, so a
// value is a function of its place (seed, step, element) and of nothing else. Rng is the stream
// form, for simulators and jitter.
// Source of the mixing constants: the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace gpunode {

constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

constexpr std::uint64_t mix(std::uint64_t key, std::uint64_t counter) {
  return mix64(mix64(key) ^ mix64(counter + 0x632be59bd9b4e019ull));
}

class Rng {
 public:
  explicit Rng(std::uint64_t seed) : key_(seed) {}
  std::uint64_t next() { return mix(key_, counter_++); }
  // Uniform in [0, bound); bound > 0. The bias is below 2^-32 for bounds below 2^32.
  std::uint64_t below(std::uint64_t bound) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }  // [0, 1)
  bool chance(double probability) { return uniform() < probability; }

 private:
  std::uint64_t key_;
  std::uint64_t counter_ = 0;
};

}  // namespace gpunode
