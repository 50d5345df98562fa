#include "runtime/dataset/scan_sum.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace gpunode::dataset {
namespace {

// SplitMix64's finaliser after its increment, written out once more: see runtime/base/rng.hpp.
std::uint64_t scramble(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  x ^= x >> 31;
  return x;
}

std::uint64_t keyed(std::uint64_t key, std::uint64_t counter) {
  return scramble(scramble(key) ^ scramble(counter + 0x632be59bd9b4e019ull));
}

// The order of one epoch, from its definition: shuffle.hpp.
class Order {
 public:
  Order(std::uint64_t seed, std::uint64_t data_epoch, std::uint64_t count)
      : key_(keyed(seed, data_epoch)), count_(count) {
    while (width_ < 64 && (count - 1) >> width_ != 0) ++width_;
    low_width_ = width_ - width_ / 2;
  }

  std::uint64_t sample_at(std::uint64_t place) const {
    do place = network(place);
    while (place >= count_);
    return place;
  }

 private:
  std::uint64_t network(std::uint64_t word) const {
    for (std::uint64_t round = 0; round < 8; ++round) {
      std::uint64_t low_part = word % (std::uint64_t{1} << low_width_);
      std::uint64_t high_part = word / (std::uint64_t{1} << low_width_);
      std::uint64_t round_key = keyed(key_, round);
      if (round % 2 == 0)
        word ^= (scramble(round_key ^ high_part) >> 32) % (std::uint64_t{1} << low_width_);
      else
        word ^= (scramble(round_key ^ low_part) >> 32) % (std::uint64_t{1} << (width_ - low_width_))
                << low_width_;
    }
    return word;
  }

  std::uint64_t key_, count_;
  int width_ = 0, low_width_ = 0;
};

// Reads the text front to back across the borders of files; offsets only grow within an epoch.
class Reader {
 public:
  explicit Reader(const TextSource& source) : files_(source.files()) {}

  void window(std::uint64_t offset, std::vector<std::byte>& target) {
    while (offset >= files_[file_].offset + files_[file_].bytes.size()) ++file_;
    std::size_t filled = 0;
    for (std::size_t file = file_; filled < target.size(); ++file) {
      ByteView bytes = files_[file].bytes.view;
      std::size_t skip = static_cast<std::size_t>(offset + filled - files_[file].offset);
      std::size_t count = std::min(bytes.size() - skip, target.size() - filled);
      if (count > 0) std::memcpy(target.data() + filled, bytes.data() + skip, count);
      filled += count;
    }
  }

 private:
  const std::vector<TextSource::File>& files_;
  std::size_t file_ = 0;
};

Error refused(const std::string& why) {
  return Error{ErrorCode::invalid_argument, "proof of fed samples: " + why};
}

}  // namespace

Result<Proof> scan_sum(const TextSource& source, const ScanSettings& settings) {
  if (settings.batch == 0 || settings.stride == 0 || settings.context == 0)
    return refused("batch, stride and context must not be 0");
  if (!(settings.validation_fraction >= 0.0 && settings.validation_fraction < 1.0))
    return refused("validation_fraction must be in [0, 1)");
  if (settings.steps > (std::uint64_t{1} << 62) / settings.batch) return refused("too many steps");
  double kept = static_cast<double>(source.size_bytes()) * (1.0 - settings.validation_fraction);
  auto text_bytes = static_cast<std::uint64_t>(std::floor(kept));
  if (text_bytes > source.size_bytes()) text_bytes = source.size_bytes();
  std::uint64_t window = std::uint64_t{settings.context} + 1;
  if (text_bytes < window) return refused("the data is shorter than one sample");

  Proof proof;
  // Windows begin at 0, stride, 2 stride ...; the last one still ends inside the text.
  proof.sample_count = (text_bytes - window + settings.stride) / settings.stride;
  proof.samples = settings.batch * settings.steps;
  std::vector<std::byte> bytes(window);
  std::vector<std::uint64_t> used((proof.sample_count + 63) / 64);
  std::uint64_t left = proof.samples;
  for (std::uint64_t data_epoch = 0; left > 0; ++data_epoch) {
    std::uint64_t here = std::min(left, proof.sample_count);
    left -= here;
    std::fill(used.begin(), used.end(), 0);
    Order order(settings.seed, data_epoch, proof.sample_count);
    for (std::uint64_t place = 0; place < here; ++place) {
      std::uint64_t sample = order.sample_at(place);
      std::uint64_t bit = std::uint64_t{1} << (sample % 64);
      if (used[sample / 64] & bit) ++proof.repeated;
      used[sample / 64] |= bit;
    }
    Reader reader(source);
    for (std::uint64_t word = 0; word < used.size(); ++word) {
      for (std::uint64_t marks = used[word]; marks != 0; marks &= marks - 1) {
        std::uint64_t sample = word * 64 + static_cast<std::uint64_t>(std::countr_zero(marks));
        reader.window(sample * settings.stride, bytes);
        proof.sum += digest_of(bytes, keyed(sample, data_epoch));
      }
    }
  }
  return proof;
}

}  // namespace gpunode::dataset
