// The time at which these tests happen.
#pragma once

#include <chrono>

#include "runtime/security/cluster_identity.hpp"

namespace gpunode::security {

inline const WallTime kNow{std::chrono::seconds(1'700'000'000)};

}  // namespace gpunode::security
