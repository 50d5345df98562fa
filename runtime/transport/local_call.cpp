// The asking end of the local command channel (local_socket.hpp).
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "runtime/transport/detail/local_wire.hpp"
#include "runtime/transport/detail/zmq_socket.hpp"
#include "runtime/transport/local_socket.hpp"

namespace gpunode::transport {

namespace {

using namespace detail;

Error no_node(const std::string& path) {
  std::string state = path.substr(0, path.rfind('/'));
  return {ErrorCode::unavailable,
          "no node runs with state directory " + state + ": start one with gpunode up"};
}

Error no_answer() {
  return {ErrorCode::timeout, "it is stopped, or has too much to do"};
}

Error belongs_to_another(const std::string& path) {
  return {ErrorCode::permission_denied,
          path + " belongs to another user: run the command as that user"};
}

enum class Wait { reply, gone, not_met, late };

constexpr Duration kSilence = std::chrono::seconds(3);  // then the caller is told
constexpr auto kDialAgain = std::chrono::milliseconds(20);

// Waits until a reply can be read, the server is gone, or the timeout is over. `not_met`: nobody took the
// connection. libzmq dials once: CLOSED where it could not, DISCONNECTED where it had.
Wait wait_for_reply(Socket& socket, Monitor& monitor, const LocalCall& call) {
  SystemClock clock;
  const Time begun = clock.now();
  const auto left_until = [&](Time when) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(when - clock.now()).count() + 1;
  };
  bool told = !call.on_silence;
  bool gone = false, met = false;
  for (;;) {
    while (auto event = monitor.next()) {
      gone |= event->event == ZMQ_EVENT_DISCONNECTED || event->event == ZMQ_EVENT_CLOSED;
      met |= event->event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
    }
    if (socket.events() & ZMQ_POLLIN) return Wait::reply;  // before `gone`: it came earlier
    if (gone) return met ? Wait::gone : Wait::not_met;
    const bool ends = call.timeout > Duration::zero();
    if (ends && clock.now() >= begun + call.timeout) return Wait::late;
    if (!told && clock.now() >= begun + kSilence) {
      told = true;
      call.on_silence();
    }
    long long left_ms = ends ? left_until(begun + call.timeout) : 60'000;
    if (!told) left_ms = std::min<long long>(left_ms, left_until(begun + kSilence));
    if (monitor.events() & ZMQ_POLLIN) continue;
    pollfd waiting[2] = {{socket.fd(), POLLIN, 0}, {monitor.fd(), POLLIN, 0}};
    ::poll(waiting, 2, static_cast<int>(std::clamp<long long>(left_ms, 1, 60'000)));
  }
}

// One connection's request and answer; nothing where nobody took the connection.
std::optional<Result<std::string>> ask_once(const LocalCall& call) {
  Socket socket(control_context(), ZMQ_DEALER);
  socket.set(ZMQ_RECONNECT_IVL, -1);
  socket.set_wide(ZMQ_MAXMSGSIZE, kMaxLocalBytes);
  Monitor monitor(control_context(), socket);
  socket.connect("ipc://" + call.path);
  Frames request;
  request.emplace_back(as_bytes(call.request));
  const auto final_reply = [&]() -> std::optional<Result<std::string>> {
    if (socket.send(request) != Sent::yes) return {};
    for (;;) {
      const Wait waited = wait_for_reply(socket, monitor, call);
      if (waited == Wait::not_met) return {};
      if (waited == Wait::late) return no_answer();
      if (waited == Wait::gone)
        return Error{ErrorCode::peer_lost, "the node ended before it had answered"};
      Frames parts = socket.receive(1);
      if (parts.empty() || parts[0].size() == 0) continue;
      std::string text(as_text(parts[0].view().subspan(1)));
      if (static_cast<char>(parts[0].data()[0]) == kFinal) return text;
      if (call.on_partial) call.on_partial(text);
    }
  };
  auto result = final_reply();
  monitor.stop(socket);
  return result;
}

}  // namespace

Result<std::string> call_local(const LocalCall& call) {
  if (call.path.size() > kMaxLocalPath) {
    return {ErrorCode::invalid_argument, "the socket path " + call.path +
                                             " is longer than the 107 bytes that the system "
                                             "allows: choose a shorter --state directory"};
  }
  // Where many ask at once the socket's queue is full for a moment, and that of a process which is stopped
  // for good: both refuse connections while somebody listens.
  SystemClock clock;
  const Time begun = clock.now();
  Duration longest = kSilence;
  if (call.timeout > Duration::zero()) longest = std::min(longest, call.timeout);
  for (;;) {
    if (auto answer = ask_once(call)) return *std::move(answer);
    const int cause = try_local(call.path);
    if (cause == EACCES || cause == EPERM) return belongs_to_another(call.path);
    if (cause != 0) return no_node(call.path);
    if (clock.now() >= begun + longest) return no_answer();
    ::poll(nullptr, 0, kDialAgain.count());
  }
}

}  // namespace gpunode::transport
