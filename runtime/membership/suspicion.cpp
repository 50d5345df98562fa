#include "runtime/membership/suspicion.hpp"

#include <algorithm>
#include <cmath>

namespace gpunode::membership {

namespace {
Duration scaled(Duration duration, double factor) {
  return Duration(static_cast<Duration::rep>(static_cast<double>(duration.count()) * factor));
}
}  // namespace

Duration suspicion_minimum(const SwimConfig& config, std::size_t live_count, int health) {
  const double spread =
      std::max(1.0, std::log10(static_cast<double>(std::max<std::size_t>(live_count, 1))));
  const Duration base =
      std::max(config.suspicion_floor, scaled(config.period, config.suspicion_periods * spread));
  return base * (1 + std::clamp(health, 0, config.health_cap));
}

Duration suspicion_time(const SwimConfig& config, std::size_t live_count, int health,
                        std::size_t observers, std::size_t wanted) {
  const Duration least = suspicion_minimum(config, live_count, health);
  if (observers >= wanted || wanted < 2) return least;
  const double agreed = std::log(static_cast<double>(std::max<std::size_t>(observers, 1))) /
                        std::log(static_cast<double>(wanted));
  const double factor = config.suspicion_max_factor - (config.suspicion_max_factor - 1.0) * agreed;
  return scaled(least, std::max(1.0, factor));
}

}  // namespace gpunode::membership
