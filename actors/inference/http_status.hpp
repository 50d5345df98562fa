// Which status an error has over HTTP, whoever's protocol is spoken. Pure.
#pragma once

#include "runtime/base/error.hpp"

namespace gpunode::inference {

// 400 of what is not known here: a request that others may take.
inline int http_status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::unsupported:
      return 400;
    case ErrorCode::unauthenticated:
      return 401;
    case ErrorCode::permission_denied:
      return 403;
    case ErrorCode::not_found:
      return 404;
    case ErrorCode::resource_exhausted:
      return 429;
    case ErrorCode::unavailable:
    case ErrorCode::peer_lost:
    case ErrorCode::cancelled:
    case ErrorCode::device_lost:
    case ErrorCode::out_of_memory:
      return 503;
    case ErrorCode::timeout:
      return 504;
    default:
      return 500;
  }
}

}  // namespace gpunode::inference
