// What a node may do in the cluster, as bits of an admission. A token names those of who joins with
// it; nobody grants a right that it lacks itself. Every admitted node may connect and gossip.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"

namespace gpunode::security {

using Rights = std::uint32_t;

inline constexpr Rights kRightCompute = 1;   // take part in jobs of others
inline constexpr Rights kRightSubmit = 2;    // start jobs, and order what is done with them
inline constexpr Rights kRightServe = 4;     // offer models and services
inline constexpr Rights kRightCall = 8;      // ask what others offer
inline constexpr Rights kRightAdmit = 16;    // make tokens and let others in
inline constexpr Rights kRightOperate = 32;  // put nodes out, order anybody's jobs
inline constexpr Rights kRightObserve = 64;  // read what jobs and nodes tell of themselves
inline constexpr Rights kAllRights = 127;
inline constexpr Rights kRightsDefault = kRightCompute | kRightCall;

// "compute, call"; "none".
std::string to_text(Rights rights);
// Names with commas between them, or "all". Fails with invalid_argument, which names the nearest.
Result<Rights> parse_rights(std::string_view text);
// All names, in the order of their bits.
const std::vector<std::string>& names_of_rights();

}  // namespace gpunode::security
