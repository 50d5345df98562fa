#include "runtime/base/error.hpp"

#include <iterator>

namespace gpunode {

std::string_view to_string(ErrorCode code) {
  static constexpr std::string_view kNames[] = {
      "invalid_argument",   "not_found",         "already_exists", "permission_denied",
      "unauthenticated",    "unavailable",       "timeout",        "cancelled",
      "peer_lost",          "protocol_mismatch", "corrupted",      "disk_full",
      "io_error",           "out_of_memory",     "no_device",      "device_lost",
      "resource_exhausted", "wrong_state",       "unsupported",    "internal"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(ErrorCode::internal) + 1);
  const auto index = static_cast<std::size_t>(code);
  return index < std::size(kNames) ? kNames[index] : "internal";
}

std::string Error::message() const {
  return std::string(to_string(code)) + ": " + detail;
}

Error Error::within(std::string_view context) const {
  return Error{code, std::string(context) + ": " + detail};
}

}  // namespace gpunode
