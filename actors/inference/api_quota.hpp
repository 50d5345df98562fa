// How much each key has asked for: requests and tokens a minute, as buckets that fill again, and requests
// under way. Pure; one a front, under its lock. Holds a line for each key that has asked.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "actors/inference/api_keys.hpp"
#include "runtime/base/clock.hpp"

namespace gpunode::inference {

class ApiQuota {
 public:
  struct Refusal {
    std::string why;
    std::chrono::seconds retry_after;  // then there is room, unless others of the key take it
  };
  // A request that may take so many tokens, of which as many as a minute gives are set aside until it
  // ends. Nothing is taken where it is refused.
  std::optional<Refusal> begin(const ApiKey& key, std::uint64_t tokens, Time now);
  // One that has begun has ended, and took so many; what it took above what was set aside is owed.
  void end(const ApiKey& key, std::uint64_t tokens, std::uint64_t used, Time now);

 private:
  struct Bucket {
    double level = 0;
    double per_minute = 0;  // it holds as much, too
    void fill(Duration passed, std::uint64_t now_per_minute);
    // Until it has so much.
    std::chrono::seconds time_to(double wanted) const;
  };
  struct Use {
    Bucket requests, tokens;
    Time seen{};
    std::uint64_t under_way = 0;
  };
  Use& use_of(const ApiKey& key, Time now);
  static double set_aside(const ApiKey& key, std::uint64_t tokens);

  std::map<std::string, Use> uses_;  // by the key's id
};

}  // namespace gpunode::inference
