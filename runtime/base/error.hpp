// One error type for expected failures (peer lost, bad bytes, disk full ...), used by every layer.
// A code says what kind of failure it is, the detail names the cause and what to try. Broken
// invariants are not errors: they go through GPUNODE_CHECK (check.hpp).
#pragma once

#include <string>
#include <string_view>

namespace gpunode {

enum class ErrorCode {
  invalid_argument,    // a caller or user passed something that cannot work
  not_found,           // the named thing does not exist
  already_exists,      // the named thing exists and must not
  permission_denied,   // the operating system or our own rules refuse
  unauthenticated,     // a key, token or signature is not accepted
  unavailable,         // the other side is away; trying again later may work
  timeout,             // the deadline passed before an answer
  cancelled,           // somebody asked for the work to stop
  peer_lost,           // the connection or the node behind it is gone
  protocol_mismatch,   // the other side speaks another version or something else
  corrupted,           // bytes do not match their checksum or their format
  disk_full,           // no space left on the device
  io_error,            // any other failure of a file or socket
  out_of_memory,       // a budget or the machine is exhausted
  no_device,           // no GPU, or no driver for it
  device_lost,         // a device does not answer or computes wrongly: its process starts anew
  resource_exhausted,  // a limit of ours was reached: queue, frames, sessions
  wrong_state,         // the thing asked for makes no sense now
  unsupported,         // this build or this machine cannot do it
  internal             // a foreign library failed in a way that we do not know
};

// "disk_full" for ErrorCode::disk_full; the same word in logs, JSON and wire replies.
std::string_view to_string(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string detail;  // cause, and where one exists the next thing to try

  // "disk_full: cannot write /x/y: free some space"
  std::string message() const;
  // The same error with "context: " put in front of its detail.
  Error within(std::string_view context) const;
};

}  // namespace gpunode
