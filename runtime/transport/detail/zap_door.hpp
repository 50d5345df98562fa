// The door of the process: the one ZAP responder that libzmq asks about every knock, on a thread of
// its own, dispatching by domain (= node), so that several nodes live in one process. Without a
// responder libzmq lets every key in; sockets therefore also set ZMQ_ZAP_ENFORCE_DOMAIN (93, hidden
// in 4.3.4's header), and MeshLink::open() tests itself.
#pragma once

#include <functional>
#include <string>

#include "runtime/base/bytes.hpp"

namespace gpunode::transport::detail {

inline constexpr int kZapEnforceDomain = 93;

struct Knock {
  std::string mechanism;
  ByteView key;  // CURVE's
};

struct KnockAnswer {
  int status = 300;  // 200 in; 300 not known yet, the client may try again; 400 never
  std::string user_id;
};

using KnockFn = std::function<KnockAnswer(const Knock&)>;

// Starts the responder on first use. `answer` runs on the responder's thread.
void open_door(const std::string& domain, KnockFn answer);
// After it returns `answer` is not called any more.
void close_door(const std::string& domain);

}  // namespace gpunode::transport::detail
