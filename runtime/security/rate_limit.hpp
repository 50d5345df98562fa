// A token bucket an address, or a peer: bounds what one of them may ask of us. Pure; the table is
// bounded, and an address whose bucket is full again is forgotten first.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "runtime/base/clock.hpp"

namespace gpunode::security {

class RateLimit {
 public:
  struct Options {
    double burst = 16;      // requests at once
    double per_second = 1;  // refill
    // Remembered at most; beyond it one makes room. Whoever has as many gains a burst of each by it,
    // and could not be told from so many honest ones.
    std::size_t addresses = 4096;
  };
  RateLimit() : RateLimit(Options{}) {}
  explicit RateLimit(Options options) : options_(options) {}

  // Takes so much from the address's bucket; false, and takes nothing, when it has less.
  bool allow(std::string_view address, Time now, double cost = 1);
  // Puts some back that were well used, as far as the bucket holds them.
  void give_back(std::string_view address, double count);
  std::size_t size() const { return buckets_.size(); }

 private:
  struct Bucket {
    double level = 0;
    Time seen{};
  };
  double level_of(const Bucket& bucket, Time now) const;

  Options options_;
  std::unordered_map<std::string, Bucket> buckets_;
};

}  // namespace gpunode::security
