// Who gets into the control lane: answers ZAP's questions about keys from the allow-list, and keeps
// a key pair that no list knows, to prove at the start that strangers are refused. libzmq lets
// everybody in where its ZAP responder is not found, and says nothing.
#pragma once

#include "runtime/transport/detail/zap_door.hpp"
#include "runtime/transport/detail/zmq_socket.hpp"
#include "runtime/transport/mesh_link.hpp"

namespace gpunode::transport::detail {

// ZAP's answer to a key that was put out: the one who knocks is told, and does not knock again by itself.
inline constexpr int kNeverAgain = 400;

class ControlDoor {
 public:
  // Open from here on, before any socket is bound: a knock without an answer is let in.
  explicit ControlDoor(const MeshLinkOptions& options);
  ~ControlDoor();
  ControlDoor(const ControlDoor&) = delete;
  ControlDoor& operator=(const ControlDoor&) = delete;

  // Before the inbox is bound. Fails with internal.
  Result<void> guard(Socket& inbox, const CurveKey& secret) const;
  // Knocks there with the key that nobody knows. Fails with internal unless it is refused.
  Result<void> test(const std::string& endpoint) const;

 private:
  KnockAnswer answer(const Knock& knock) const;

  const MeshLinkOptions& options_;
  const std::string domain_;  // several nodes may live in one process, behind one ZAP responder
  std::array<char, 41> stranger_public_{};  // as Z85 text, ended by a zero
  std::array<char, 41> stranger_secret_{};
  CurveKey stranger_key_{};
};

}  // namespace gpunode::transport::detail
