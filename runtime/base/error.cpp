#include "runtime/base/error.hpp"

namespace gpunode {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::already_exists:
      return "already_exists";
    case ErrorCode::permission_denied:
      return "permission_denied";
    case ErrorCode::unauthenticated:
      return "unauthenticated";
    case ErrorCode::unavailable:
      return "unavailable";
    case ErrorCode::timeout:
      return "timeout";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::peer_lost:
      return "peer_lost";
    case ErrorCode::protocol_mismatch:
      return "protocol_mismatch";
    case ErrorCode::corrupted:
      return "corrupted";
    case ErrorCode::disk_full:
      return "disk_full";
    case ErrorCode::io_error:
      return "io_error";
    case ErrorCode::out_of_memory:
      return "out_of_memory";
    case ErrorCode::no_device:
      return "no_device";
    case ErrorCode::resource_exhausted:
      return "resource_exhausted";
    case ErrorCode::wrong_state:
      return "wrong_state";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::internal:
      return "internal";
  }
  return "internal";
}

std::string Error::message() const {
  return std::string(to_string(code)) + ": " + detail;
}

Error Error::within(std::string_view context) const {
  return Error{code, std::string(context) + ": " + detail};
}

}  // namespace gpunode
