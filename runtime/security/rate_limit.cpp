#include "runtime/security/rate_limit.hpp"

#include <algorithm>

namespace gpunode::security {

double RateLimit::level_of(const Bucket& bucket, Time now) const {
  double seconds = std::chrono::duration<double>(now - bucket.seen).count();
  return std::min(options_.burst, bucket.level + std::max(0.0, seconds) * options_.per_second);
}

bool RateLimit::allow(std::string_view address, Time now, double cost) {
  std::string key(address);
  auto found = buckets_.find(key);
  if (found == buckets_.end()) {
    if (buckets_.size() >= options_.addresses) {
      std::erase_if(buckets_,
                    [&](const auto& item) { return level_of(item.second, now) >= options_.burst; });
    }
    if (buckets_.size() >= options_.addresses) buckets_.erase(buckets_.begin());
    found = buckets_.try_emplace(key, Bucket{options_.burst, now}).first;
  }
  Bucket& bucket = found->second;
  bucket.level = level_of(bucket, now);
  bucket.seen = std::max(bucket.seen, now);
  if (bucket.level < cost) return false;
  bucket.level -= cost;
  return true;
}

void RateLimit::give_back(std::string_view address, double count) {
  const auto found = buckets_.find(std::string(address));
  if (found == buckets_.end()) return;
  found->second.level = std::min(options_.burst, found->second.level + count);
}

}  // namespace gpunode::security
