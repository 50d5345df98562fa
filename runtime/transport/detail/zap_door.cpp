#include "runtime/transport/detail/zap_door.hpp"

#include <map>
#include <mutex>
#include <thread>

#include "runtime/base/check.hpp"
#include "runtime/transport/detail/zmq_socket.hpp"

namespace gpunode::transport::detail {

namespace {

class Door {
 public:
  Door() : socket_(control_context(), ZMQ_REP) {
    GPUNODE_CHECK(static_cast<bool>(socket_), "no socket for the ZAP responder");
    int bound = zmq_bind(socket_.raw(), "inproc://zeromq.zap.01");
    GPUNODE_CHECK(bound == 0, "another ZAP responder lives in this context");
    std::thread([this] { run(); }).detach();  // for ever, as the context lives
  }

  void set(const std::string& domain, KnockFn answer) {
    std::lock_guard lock(mutex_);
    answers_[domain] = std::move(answer);
  }
  void erase(const std::string& domain) {
    std::lock_guard lock(mutex_);
    answers_.erase(domain);
  }

 private:
  void run() {
    for (;;) {
      Frames parts;
      bool more = true;
      while (more) {
        Frame part;
        if (zmq_msg_recv(part.raw(), socket_.raw(), 0) < 0) {
          if (errno == EINTR) continue;
          return;
        }
        more = zmq_msg_more(part.raw()) != 0;
        parts.push_back(std::move(part));
      }
      reply(parts);
    }
  }

  void reply(const Frames& parts) {
    KnockAnswer answer{500, ""};
    if (parts.size() >= 6) {
      Knock knock;
      knock.mechanism = as_text(parts[5].view());
      if (parts.size() > 6) knock.key = parts[6].view();
      std::lock_guard lock(mutex_);
      auto found = answers_.find(std::string(as_text(parts[2].view())));
      answer = found == answers_.end() ? KnockAnswer{300, ""} : found->second(knock);
    }
    std::string status = std::to_string(answer.status);
    Frames out;
    out.emplace_back(as_bytes("1.0"));
    out.emplace_back(parts.size() > 1 ? parts[1].view() : ByteView());
    out.emplace_back(as_bytes(status));
    out.emplace_back(as_bytes(answer.status == 200 ? "OK" : "refused"));
    out.emplace_back(as_bytes(answer.user_id));
    out.emplace_back(ByteView());
    socket_.send(out);
  }

  Socket socket_;
  std::mutex mutex_;
  std::map<std::string, KnockFn> answers_;
};

Door& process_door() {
  static Door& door = *new Door;  // never ended, as its context is not
  return door;
}

}  // namespace

void open_door(const std::string& domain, KnockFn answer) {
  process_door().set(domain, std::move(answer));
}

void close_door(const std::string& domain) {
  process_door().erase(domain);
}

}  // namespace gpunode::transport::detail
