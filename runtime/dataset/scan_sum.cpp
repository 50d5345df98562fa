#include "runtime/dataset/scan_sum.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
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
  explicit Reader(const TextSource& source) : files_(&source.files()) {}

  void window(std::uint64_t offset, std::vector<std::byte>& target) {
    while (offset >= (*files_)[file_].offset + (*files_)[file_].size_bytes) ++file_;
    std::size_t filled = 0;
    for (std::size_t file = file_; filled < target.size(); ++file) {
      const TextSource::File& from = (*files_)[file];
      const std::uint64_t skip = offset + filled - from.offset;
      const std::size_t count =
          std::min<std::uint64_t>(from.size_bytes - skip, target.size() - filled);
      from.copy(skip, MutableByteView(target).subspan(filled, count));
      filled += count;
    }
  }

 private:
  const std::vector<TextSource::File>* files_;
  std::size_t file_ = 0;
};

Error refused(const std::string& why) {
  return Error{ErrorCode::invalid_argument, "proof of fed samples: " + why};
}

// Which of `count` parts may be trained on, from the definition in held_out.hpp.
std::vector<bool> trained_parts(std::uint64_t count, double fraction) {
  std::vector<bool> trained(count, true);
  if (fraction <= 0 || count <= 1) return trained;
  std::vector<std::uint64_t> parts(count);
  for (std::uint64_t part = 0; part < count; ++part) parts[part] = part;
  const auto draw = [](std::uint64_t part) { return keyed(0x68656c64, part); };
  std::sort(parts.begin(), parts.end(), [&](std::uint64_t a, std::uint64_t b) {
    return draw(a) != draw(b) ? draw(a) < draw(b) : a < b;
  });
  auto held = static_cast<std::uint64_t>(std::floor(static_cast<double>(count) * fraction + 0.5));
  if (held == 0) held = 1;
  if (held == count) --held;
  for (std::uint64_t at = 0; at < held; ++at) trained[parts[at]] = false;
  return trained;
}

// The samples of an epoch in the order of the data, which is that of their numbers.
class Samples {
 public:
  virtual ~Samples() = default;
  virtual std::uint64_t count() const = 0;
  // Numbers only grow from call to call, until rewind().
  virtual void read(std::uint64_t sample, std::vector<std::byte>& target) = 0;
  virtual void rewind() = 0;
};

class Windows final : public Samples {
 public:
  Windows(const TextSource& source, const ScanSettings& settings)
      : source_(source),
        reader_(source),
        window_(settings.context + std::uint64_t{1}),
        stride_(settings.stride),
        width_(settings.token_bytes) {
    const std::uint64_t size = source.size_bytes() / width_;
    std::uint64_t block = 4096;
    while (block < 16 * window_ || (size + block - 1) / block > 65536) block += 4096;
    const std::uint64_t blocks = (size + block - 1) / block;
    if (blocks < 2) {
      const double kept = static_cast<double>(size) * (1.0 - settings.validation_fraction);
      stretch(0, std::min(size, static_cast<std::uint64_t>(std::floor(kept))));
      return;
    }
    const std::vector<bool> trained = trained_parts(blocks, settings.validation_fraction);
    std::uint64_t begin = 0;
    for (std::uint64_t at = 0; at <= blocks; ++at) {
      if (at < blocks && trained[at]) continue;
      stretch(begin, std::min(size, at * block));
      begin = (at + 1) * block;
    }
  }

  std::uint64_t count() const override { return count_; }
  void rewind() override {
    reader_ = Reader(source_);
    at_ = 0;
  }
  void read(std::uint64_t sample, std::vector<std::byte>& target) override {
    while (sample >= stretches_[at_].after) ++at_;
    const Stretch& here = stretches_[at_];
    const std::uint64_t first = here.begin + (sample - here.first) * stride_;
    std::vector<std::byte>& stored = width_ == 2 ? narrow_ : target;
    stored.resize(window_ * width_);
    reader_.window(first * width_, stored);
    if (width_ != 2) return;
    target.assign(window_ * 4, std::byte{0});
    for (std::uint64_t at = 0; at < window_; ++at) {
      target[at * 4] = narrow_[at * 2];
      target[at * 4 + 1] = narrow_[at * 2 + 1];
    }
  }

 private:
  struct Stretch {
    std::uint64_t begin, first, after;  // its first byte or token, its samples
  };
  // Windows begin at its first byte and every stride behind it; the last still ends inside.
  void stretch(std::uint64_t begin, std::uint64_t end) {
    if (begin >= end || end - begin < window_) return;
    const std::uint64_t more = (end - begin - window_ + stride_) / stride_;
    stretches_.push_back({begin, count_, count_ + more});
    count_ += more;
  }

  const TextSource& source_;
  Reader reader_;
  std::uint64_t window_, stride_, width_, count_ = 0;
  std::vector<std::byte> narrow_;
  std::vector<Stretch> stretches_;
  std::size_t at_ = 0;
};

// A table, character by character.
class Rows final : public Samples {
 public:
  Rows(const TextSource& source, const ScanSettings& settings) {
    std::vector<std::vector<std::byte>> all;
    for (const TextSource::File& file : source.files()) {
      std::string line;
      bool first = true;
      const auto take = [&](char next) {
        if (next != '\n') {
          const bool ends_cell = next == ',' || next == '\t';
          if (first && ends_cell && line.find_first_not_of(' ') == std::string::npos)
            line = "empty";  // no number, so the line is a header
          line += next == ',' || next == '\t' || next == '\r' ? ' ' : next;
          return;
        }
        add(line, first, all);
        first = false;
        line.clear();
      };
      file.stream([&](ByteView piece) {
        for (const char next : as_text(piece)) take(next);
      });
      take('\n');
    }
    const std::vector<bool> trained = trained_parts(all.size(), settings.validation_fraction);
    for (std::size_t row = 0; row < all.size(); ++row)
      if (trained[row]) rows_.push_back(std::move(all[row]));
  }

  std::uint64_t count() const override { return rows_.size(); }
  void rewind() override {}
  void read(std::uint64_t sample, std::vector<std::byte>& target) override {
    target = rows_[sample];
  }

 private:
  static void add(const std::string& line, bool first, std::vector<std::vector<std::byte>>& all) {
    std::vector<std::string> cells;
    for (std::size_t at = 0; at < line.size();) {
      const std::size_t end = std::min(line.find(' ', at), line.size());
      if (end > at) cells.push_back(line.substr(at, end - at));
      at = end + 1;
    }
    if (cells.empty()) return;
    float number = 0;
    const std::string& begin = cells[0];
    const auto [end, failure] = std::from_chars(begin.data(), begin.data() + begin.size(), number);
    const bool is_number = failure == std::errc{} && end == begin.data() + begin.size();
    if (first && !is_number) return;
    std::vector<std::byte> row(cells.size() * 4);
    for (std::size_t at = 0; at < cells.size(); ++at) {
      const float value = std::strtof(cells[at].c_str(), nullptr);
      const auto label = static_cast<std::int32_t>(std::strtol(cells[at].c_str(), nullptr, 10));
      std::memcpy(row.data() + at * 4,
                  at + 1 < cells.size() ? static_cast<const void*>(&value)
                                        : static_cast<const void*>(&label),
                  4);
    }
    all.push_back(std::move(row));
  }

  std::vector<std::vector<std::byte>> rows_;
};

}  // namespace

Result<Proof> scan_sum(const TextSource& source, const ScanSettings& settings) {
  if (settings.batch == 0 || settings.stride == 0 || settings.context == 0)
    return refused("batch, stride and context must not be 0");
  if (settings.token_bytes != 1 && settings.token_bytes != 2 && settings.token_bytes != 4)
    return refused("token_bytes must be 1, 2 or 4");
  if (!(settings.validation_fraction >= 0.0 && settings.validation_fraction < 1.0))
    return refused("validation_fraction must be in [0, 1)");
  if (settings.steps > (std::uint64_t{1} << 62) / settings.batch) return refused("too many steps");
  std::unique_ptr<Samples> samples;
  if (settings.table)
    samples = std::make_unique<Rows>(source, settings);
  else
    samples = std::make_unique<Windows>(source, settings);
  if (samples->count() == 0) return refused("the data is shorter than one sample");

  Proof proof;
  proof.sample_count = samples->count();
  proof.samples = settings.batch * settings.steps;
  std::vector<std::byte> bytes;
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
    samples->rewind();
    for (std::uint64_t word = 0; word < used.size(); ++word) {
      for (std::uint64_t marks = used[word]; marks != 0; marks &= marks - 1) {
        std::uint64_t sample = word * 64 + static_cast<std::uint64_t>(std::countr_zero(marks));
        samples->read(sample, bytes);
        proof.sum += digest_of(bytes, keyed(sample, data_epoch));
      }
    }
  }
  return proof;
}

}  // namespace gpunode::dataset
