// How a running node ends: asked for, or because an actor failed that it cannot do without. Whoever
// comes first ends it, in a thread of its own if it is one of those that end; the others wait.
#include <algorithm>
#include <chrono>
#include <future>

#include "actors/answer_once.hpp"
#include "actors/node/detail/running_node.hpp"
#include "runtime/base/log.hpp"

namespace gpunode::node {
namespace {

constexpr auto kShutdownTimeout = std::chrono::seconds(10);
constexpr auto kLostShutdownTimeout = std::chrono::seconds(1);
constexpr auto kLeaveTimeout = std::chrono::seconds(25);  // what a spot notice leaves at least
constexpr auto kLeaveAnswerTerm = std::chrono::milliseconds(150);
constexpr auto kGoodbyeTimeout = std::chrono::seconds(2);

}  // namespace

// On a thread of its own: who asks is a part of what ends.
void RunningNode::end_soon(bool politely) {
  std::lock_guard lock(end_mutex_);
  if (!ender_.joinable()) ender_ = std::jthread([this, politely] { end(politely); });
}

void RunningNode::fail(std::string reason) {
  log::error("node", reason + "; this node ends, start it again");
  {
    std::lock_guard lock(end_mutex_);
    if (phase_ >= Phase::ending) return;
    failure_ = std::move(reason);
  }
  end_soon(true);
}

// Of the jobs at once: their other members need not wait for what will not come.
void RunningNode::on_device_lost(const std::string& device, const std::string& reason,
                                 const std::set<std::string>& jobs) {
  const std::string text = "the device " + device + " is lost: " + reason;
  log::error("node", text);
  send(&Children::job_board, DeviceLost{{ErrorCode::device_lost, text}, jobs});
  if (!config_.on_device_lost) return;
  std::lock_guard lock(end_mutex_);
  tellers_.emplace_back([this, device, reason] { config_.on_device_lost(device, reason); });
}

// Whether the child says that it has left.
std::future<bool> RunningNode::begin_to_leave(caf::actor Children::*child, Duration timeout) {
  auto promise = std::make_shared<std::promise<bool>>();
  auto left = promise->get_future();
  send(child,
       Leave{timeout, AnswerOnce<bool>([promise](bool done) { promise->set_value(done); }, false)});
  return left;
}

bool RunningNode::leave(caf::actor Children::*child, Duration timeout) {
  auto left = begin_to_leave(child, timeout);
  return left.wait_for(timeout + kLeaveAnswerTerm) == std::future_status::ready && left.get();
}

// The jobs go on without this node before it says goodbye, so nobody waits for a detector; and what its
// models were asked, and clients asked here, is answered meanwhile.
void RunningNode::hand_over() {
  const Time until = parts_.clock->now() + kLeaveTimeout;
  const auto models = begin_to_leave(&Children::serving, kLeaveTimeout);
  leave(&Children::job_board, kLeaveTimeout);
  const auto left = [&] {
    return std::chrono::ceil<std::chrono::milliseconds>(
        std::max(Duration(0), until - parts_.clock->now()));
  };
  if (http_front_) http_front_->drain(left());
  models.wait_for(left());
}

// What was asked is answered before a goodbye, and thrown away before a stop. A handler that does
// not return keeps its thread, and nothing of this node.
void RunningNode::end_handlers(bool politely) {
  if (politely)
    calls_->withdraw();
  else
    calls_->close();
  call_threads_->close(politely);
  if (!call_threads_->wait(*parts_.clock, kShutdownTimeout))
    log::warning("node", "a handler of a published name did not return in time; going on without");
  calls_->close();
}

// Ends the actors, the link under them in between. What is still at work after the timeout (a
// scan of all data) keeps the actor system and the node's parts.
void RunningNode::stop_children(bool politely) {
  // First the supervisor, so that what ends now is no failure.
  for (caf::actor Children::*child : {&Children::supervisor, &Children::job_board,
                                      &Children::serving, &Children::admission, &Children::calls})
    send(child, Shutdown{});
  if (politely) {
    if (!leave(&Children::cluster, kGoodbyeTimeout))
      log::warning("node",
                   "no other node has answered this one's goodbye: to those that are there it is "
                   "dead, not left, until it is started again");
  } else {
    std::shared_lock lock(children_mutex_);
    if (children_.cluster) caf::anon_send_exit(children_.cluster, caf::exit_reason::kill);
  }
  entry_->link->close();
  router_->clear();
  Children gone;
  {
    std::unique_lock lock(children_mutex_);
    std::swap(gone, children_);
  }
  gone = {};
  // Work on a device that is lost does not end.
  const bool hangs = std::ranges::any_of(devices_->devices(), [](const auto& device) {
    return device->condition() == compute::DeviceCondition::lost;
  });
  Time deadline = parts_.clock->now() + (hangs ? kLostShutdownTimeout : kShutdownTimeout);
  while (system_->registry().running() > 0 && parts_.clock->now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (system_->registry().running() > 0)
    return log::warning("node", "some work did not end in time; stopping without it");
  system_.reset();
}

// Shutdown in order: no intake, actors end (goodbyes go out), sockets close in their threads,
// threads are joined.
void RunningNode::end(bool politely) {
  // A handler that runs at once would wait for the end of the thread that it is on.
  if (Calls::on_link_thread()) return end_soon(politely);
  {
    std::unique_lock lock(end_mutex_);
    // A child may fail, or a command to stop may come, before the start is over.
    phase_changed_.wait(lock, [this] { return phase_ != Phase::starting; });
    if (phase_ >= Phase::ending) {
      phase_changed_.wait(lock, [this] { return phase_ == Phase::ended; });
      return;
    }
    phase_ = Phase::ending;
    politely = politely && failure_.empty();
  }
  if (politely && system_) hand_over();
  if (local_server_) local_server_->close();
  if (metrics_server_) metrics_server_->close();
  if (http_front_) http_front_->close();
  if (entry_ && entry_->join_socket) entry_->join_socket->close();
  if (calls_) end_handlers(politely);
  if (system_) stop_children(politely);
  // Work that is left may still write.
  if (entry_ && !system_) entry_->state.unlock();
  std::lock_guard lock(end_mutex_);
  phase_ = Phase::ended;
  phase_changed_.notify_all();
}

}  // namespace gpunode::node
