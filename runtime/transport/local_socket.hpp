// The local command channel: how `gpunode jobs` speaks with the node of a state directory. ROUTER
// and DEALER over a socket file that only its owner can open; the texts are JSON, opaque here.
//
// A request gets any number of partial replies and one final reply. The server has one thread; a
// Responder may be kept and answered later from any thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/base/clock.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::transport {

namespace detail {
struct LocalOutbox;
struct LocalReply;
}  // namespace detail

// The answer to one request. Copies answer the same request. Any thread. A request whose last
// Responder goes without finish() is answered by an empty final reply.
class Responder {
 public:
  explicit Responder(std::shared_ptr<detail::LocalReply> reply) : reply_(std::move(reply)) {}
  void partial(std::string text) const;
  void finish(std::string text) const;  // a second call has no effect
  bool gone() const;                    // the client went away, or the server is closed
  // Not gone, for what takes long: the client is sent an empty partial reply once a second, as one that went
  // away is noticed by what cannot be sent to it.
  bool is_awaited() const;

 private:
  std::shared_ptr<detail::LocalReply> reply_;
};

class LocalServer {
 public:
  // Called on the server's thread; must not block.
  using RequestFn = std::function<void(std::string request, Responder responder)>;

  // Listens on the socket file (mode 0600; its directory must be the owner's). Fails with:
  // invalid_argument (path over 107 bytes), already_exists (a node listens there), io_error.
  static Result<std::unique_ptr<LocalServer>> open(const std::string& path, RequestFn on_request);
  virtual ~LocalServer() = default;
  // Stops intake, sends what is queued, removes the file, joins the thread.
  virtual void close() = 0;
};

struct LocalCall {
  std::string path;
  std::string request;
  // Called on the caller's thread for each partial reply; may be null.
  std::function<void(const std::string&)> on_partial;
  // Longest silence: the time to the first reply and between two replies. Zero: no limit.
  Duration timeout = std::chrono::seconds(30);
  // Called on the caller's thread when nothing came for three seconds; may be null.
  std::function<void()> on_silence = nullptr;
};

// Sends the request and waits for the final reply. Fails with: unavailable (no node runs there),
// permission_denied (another user's node), timeout, peer_lost (the node ended before it answered).
Result<std::string> call_local(const LocalCall& call);

}  // namespace gpunode::transport
