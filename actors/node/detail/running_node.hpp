// A node while it runs: its parts, its actors, and the locks between their threads and those of the
// embedder. Shared by node.cpp (what it is made of), node_requests.cpp (what it is asked) and
// node_end.cpp (how it ends) alone.
#pragma once

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/send.hpp>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#include "actors/cluster_state.hpp"
#include "actors/compute/device_roster.hpp"
#include "actors/inference/model_pulse.hpp"
#include "actors/job/job_environment.hpp"
#include "actors/node/call_threads.hpp"
#include "actors/node/calls.hpp"
#include "actors/node/detail/devices.hpp"
#include "actors/node/entry.hpp"
#include "actors/node/node.hpp"
#include "actors/node/node_metrics.hpp"
#include "actors/node/node_parts.hpp"
#include "actors/node/router.hpp"
#include "runtime/base/version.hpp"
#include "runtime/storage/posix_file_system.hpp"
#include "runtime/telemetry/registry.hpp"
#include "runtime/transport/local_socket.hpp"

namespace gpunode::node {

class RunningNode {
 public:
  RunningNode(NodeConfig config, NodeParts parts)
      : config_(std::move(config)), parts_(std::move(parts)) {
    if (!parts_.files) parts_.files = &posix_files_;
    if (!parts_.clock) parts_.clock = &system_clock_;
    if (parts_.version.empty()) parts_.version = program_version();
    router_ = std::make_unique<Router>(*parts_.clock);
    call_threads_ = std::make_shared<CallThreads>(
        CallThreads::Limits{config_.handler_threads, config_.handler_queue});
  }
  ~RunningNode() { end(false); }

  Result<void> start(const AddDevices& add_devices) {
    auto started = start_parts(add_devices);
    std::lock_guard lock(end_mutex_);
    if (phase_ == Phase::starting) phase_ = Phase::running;
    phase_changed_.notify_all();
    return started;
  }

  // What Node offers under these names.
  Result<void> publish(const std::string& name, Node::Handler handler, Node::Run run);
  Result<std::string> call(const std::string& name, std::string_view request,
                           std::chrono::milliseconds timeout, Node::Retry retry);
  std::string command(const std::string& name, const std::string& arguments);
  const Entry& entry() const { return *entry_; }
  // As others are told.
  NodeInfo own() const {
    const auto cluster = cluster_state_.read();
    return cluster->own() ? *cluster->own() : NodeInfo{};
  }
  std::string metrics_endpoint() const;
  std::string http_endpoint() const;
  void end(bool politely);
  std::string failure() {
    std::lock_guard lock(end_mutex_);
    return failure_;
  }
  void wait() {
    std::unique_lock lock(end_mutex_);
    phase_changed_.wait(lock, [this] { return phase_ == Phase::ended; });
  }
  bool has_ended() {
    std::lock_guard lock(end_mutex_);
    return phase_ == Phase::ended;
  }
  // Whether work that did not end in time still uses the parts of this node. After the end.
  bool in_use() const { return system_ && system_->registry().running() > 0; }

 private:
  struct Children {
    caf::actor cluster, calls, job_board, admission, serving, supervisor;
  };

  Result<void> start_parts(const AddDevices& add_devices);
  Result<void> wait_for_a_peer();
  void spawn_children();
  Result<void> open_doors();
  Result<void> open_http_front();
  void end_soon(bool politely);
  std::future<bool> begin_to_leave(caf::actor Children::*child, Duration timeout);
  bool leave(caf::actor Children::*child, Duration timeout);
  void hand_over();
  void leave_if_it_may(const std::string& arguments, std::function<void(std::string)> answer);
  void fail(std::string reason);
  void end_handlers(bool politely);
  void on_device_lost(const std::string& device, const std::string& reason,
                      const std::set<std::string>& jobs);
  void stop_children(bool politely);
  std::string metrics();
  void run_command(const std::string& name, const std::string& arguments,
                   std::function<void(std::string)> answer, std::function<bool()> is_awaited = {});

  NodeConfig config_;
  NodeParts parts_;
  storage::PosixFileSystem posix_files_;
  SystemClock system_clock_;
  std::unique_ptr<compute::DeviceRoster> devices_;
  std::unique_ptr<Router> router_;
  std::unique_ptr<Entry> entry_;   // identity, admissions, link: what makes us a member
  security::Authority authority_;  // of the entry
  ClusterState cluster_state_;
  std::atomic<bool> caught_up_{false};  // with what another node knew
  telemetry::Registry metrics_;
  std::shared_ptr<inference::ModelPulses> model_pulses_ =
      std::make_shared<inference::ModelPulses>();
  std::shared_ptr<PeerLimits> limits_;
  std::shared_ptr<CallThreads> call_threads_;
  std::shared_ptr<Calls> calls_;  // null before the start
  std::unique_ptr<jobs::JobEnvironment> environment_;
  std::unique_ptr<checkpoint::NewestCheckpoints> newest_checkpoints_;

  caf::actor_system_config system_config_;
  std::unique_ptr<caf::actor_system> system_;
  // From any thread. The lock is held until the message is in the mailbox: a handle may not outlive
  // the actor system. A node that has ended drops the message.
  template <class Message>
  void send(caf::actor Children::*child, Message message) {
    std::shared_lock lock(children_mutex_);
    caf::anon_send(children_.*child, std::move(message));
  }

  std::shared_mutex children_mutex_;
  Children children_;  // null before the start and after the end
  std::unique_ptr<transport::LocalServer> local_server_;
  std::unique_ptr<http::Server> metrics_server_, http_front_;  // null: nobody wants it

  std::mutex end_mutex_;
  std::condition_variable phase_changed_;
  enum class Phase : std::uint8_t { starting, running, ending, ended };
  Phase phase_ = Phase::starting;
  std::string failure_;
  std::jthread ender_;                 // of a `leave` or `stop` that came as a command
  std::vector<std::jthread> tellers_;  // of devices that are lost, to the embedder
};

}  // namespace gpunode::node
