// The composition root: the one place that names concrete links, clocks, files and backends. Its
// list of children (spawn_children) is the picture of a running node.
//
//   link threads -> Router -> cluster    who is here, directory
//                          -> calls      named calls between nodes
//                          -> jobs       -> job -> trainer (device thread), checkpoint writer
//                          -> admission  <- join port
//   local socket -> commands -> any of them; health -> directory; serving -> calls, models;
//   supervisor watches them all
#include "actors/node/node.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/logger.hpp>
#include <caf/send.hpp>

#include <unistd.h>

#include <future>
#include <thread>

#include "actors/cluster_state.hpp"
#include "actors/compute/trainer.hpp"
#include "actors/health/health_actor.hpp"
#include "actors/inference/serving_actor.hpp"
#include "actors/json_answer.hpp"
#include "actors/node/admission_actor.hpp"
#include "actors/node/call_actor.hpp"
#include "actors/node/cluster_actor.hpp"
#include "actors/node/commands.hpp"
#include "actors/node/endpoints.hpp"
#include "actors/node/entry.hpp"
#include "actors/node/job_environment.hpp"
#include "actors/node/jobs_actor.hpp"
#include "actors/node/node_parts.hpp"
#include "actors/node/router.hpp"
#include "actors/node/supervisor.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cuda/cuda_backend.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/nearest.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/storage/posix_file_system.hpp"
#include "runtime/telemetry/registry.hpp"
#include "runtime/transport/join_socket.hpp"
#include "runtime/transport/local_socket.hpp"

namespace gpunode {
namespace node {
namespace {

constexpr auto kShutdownPatience = std::chrono::seconds(10);
constexpr auto kFirstPeerPatience = std::chrono::seconds(10);
constexpr auto kGoodbyeTerm = std::chrono::milliseconds(150);

// The device that jobs and models of this node use: a GPU that has every operation, else the CPU.
std::unique_ptr<ops::Backend> open_backend() {
  auto gpu = cuda::open_backend();
  if (gpu && (*gpu)->operations().missing().empty()) return std::move(*gpu);
  if (gpu) log::info("node", "the GPU has no twin yet of every operation; computing on the CPU");
  return cpu::open_backend();
}

class RunningNode final : public Node {
 public:
  RunningNode(NodeConfig config, NodeParts parts)
      : config_(std::move(config)), parts_(std::move(parts)) {
    if (!parts_.files) parts_.files = &posix_files_;
    if (!parts_.clock) parts_.clock = &system_clock_;
    router_ = std::make_unique<Router>(*parts_.clock);
  }
  ~RunningNode() override {
    stop();
    if (ender_.joinable()) ender_.join();
  }

  Result<void> start();

  void publish(const std::string& name, Handler handler) override;
  Result<std::string> call(const std::string& name, std::string_view request,
                           std::chrono::milliseconds patience) override;
  std::string command(const std::string& name, const std::string& arguments) override;
  std::string id() const override { return entry_->identity.id().text(); }
  std::string name() const override { return entry_->name; }
  std::vector<std::string> endpoints() const override { return entry_->addresses.control; }
  std::vector<std::string> join_endpoints() const override { return entry_->addresses.join; }
  void leave() override { end(true); }
  void stop() override { end(false); }
  std::string failure() override {
    std::lock_guard lock(end_mutex_);
    return failure_;
  }
  void wait() override {
    std::unique_lock lock(end_mutex_);
    ended_changed_.wait(lock, [this] { return ended_; });
  }

 private:
  void wait_for_a_peer();
  void spawn_children();
  Result<void> open_doors();
  void end(bool politely);
  std::string metrics_text();
  void end_soon(bool politely);
  void fail(std::string reason);
  void run_command(const std::string& name, const std::string& arguments,
                   std::function<void(std::string)> answer);

  NodeConfig config_;
  NodeParts parts_;
  storage::PosixFileSystem posix_files_;
  SystemClock system_clock_;
  std::unique_ptr<ops::Backend> backend_;
  std::unique_ptr<Router> router_;
  std::unique_ptr<Entry> entry_;  // identity, admissions, link: what makes us a member
  ClusterState cluster_state_;
  telemetry::Registry metrics_;
  std::unique_ptr<JobEnvironment> environment_;

  caf::actor_system_config system_config_;
  std::unique_ptr<caf::actor_system> system_;
  struct Children {
    caf::actor cluster, calls, jobs, admission, serving, supervisor;
  } children_;
  std::unique_ptr<transport::JoinSocket> join_socket_;
  std::unique_ptr<transport::LocalServer> local_server_;

  std::mutex end_mutex_;
  std::condition_variable ended_changed_;
  bool ending_ = false, ended_ = false;
  std::string failure_;
  std::thread ender_;  // of a `leave` or `stop` that came as a command
};

Result<void> RunningNode::start() {
  backend_ = open_backend();
  if (config_.threads <= 0)
    config_.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  auto entry = enter(config_, parts_, *router_);
  if (!entry) return entry.error();
  entry_ = std::move(*entry);
  environment_ = std::make_unique<JobEnvironment>(JobEnvironment::Options{
      backend_.get(), parts_.files, parts_.clock, config_.threads, entry_->state.path()});
  system_config_.set("scheduler.policy", caf::atom("sharing"));
  system_config_.set("scheduler.max-throughput", std::size_t{100});
  system_config_.set("scheduler.max-threads", std::size_t{2});
  system_ = std::make_unique<caf::actor_system>(system_config_);
  spawn_children();
  // CAF leaves a reference to the system's logger in every thread that spawns, and its destructor
  // waits for them; the node may be ended by another thread than this one.
  caf::logger::set_current_actor_system(nullptr);
  wait_for_a_peer();
  return open_doors();
}

// A node that has just joined is up when it sees the others; a restarted one may be the first.
void RunningNode::wait_for_a_peer() {
  if (config_.join.empty()) return;
  Time deadline = parts_.clock->now() + kFirstPeerPatience;
  while (parts_.clock->now() < deadline) {
    auto cluster = cluster_state_.read();
    for (const NodeInfo& node : cluster->nodes)
      if (!node.self && cluster->alive(node.id)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  log::warning("node",
               "admitted, but no member has answered yet; going on, it is tried again and again");
}

void RunningNode::spawn_children() {
  caf::actor_system& system = *system_;
  Entry& entry = *entry_;
  NodeId self = entry.identity.id();
  NodeInfo me;
  me.id = self;
  me.name = entry.name;
  me.self = true;
  cluster_state_.write({self, {me}, {}, {}});  // until the cluster actor has its own
  children_.cluster =
      spawn_cluster(system, entry.cluster_options(config_, cluster_state_, *parts_.clock));
  children_.calls = spawn_calls(system, {self, entry.link, &cluster_state_, parts_.clock,
                                         children_.cluster, mix(entry.boot, 3), &metrics_});
  children_.admission = spawn_admission(
      system, {&entry.identity, entry.admissions.get(), entry.tokens, entry.audit, entry.name,
               entry.addresses.join, entry.link, &cluster_state_, children_.cluster, parts_.clock});
  children_.jobs = spawn_jobs(
      system, {self, entry.boot, config_.labels, environment_.get(), &cluster_state_, entry.link,
               compute::add_of(*backend_), children_.calls, children_.cluster, &metrics_});
  children_.serving = inference::spawn_serving(
      system, {backend_.get(), parts_.files, parts_.clock, &cluster_state_,
               environment_->checkpoint_root(), children_.calls, &metrics_});
  auto spawn_health = [this, &system, &entry] {
    return health::spawn_health(system, {std::make_shared<probe::ProcHostProbe>(entry.state.path()),
                                         std::shared_ptr<probe::GpuProbe>(probe::open_nvml_probe()),
                                         parts_.clock, children_.cluster});
  };
  children_.supervisor = spawn_supervisor(system,
                                          {{"cluster", children_.cluster, nullptr},
                                           {"calls", children_.calls, nullptr},
                                           {"admission", children_.admission, nullptr},
                                           {"jobs", children_.jobs, nullptr},
                                           {"serving", children_.serving, nullptr},
                                           {"health", spawn_health(), spawn_health}},
                                          [this](std::string reason) { fail(std::move(reason)); });
  for (const caf::actor& child : {children_.calls, children_.jobs, children_.admission})
    caf::anon_send(children_.cluster, Subscribe{child});
  router_->set_targets({children_.cluster, children_.calls, children_.jobs, children_.admission});
  caf::anon_send(children_.cluster, Begin{});
}

// The socket for this machine's owner; the other doors are open since enter().
Result<void> RunningNode::open_doors() {
  if (!config_.local_commands) return {};
  auto server = transport::LocalServer::open(
      entry_->state.socket_path().string(),
      [this](std::string request, transport::Responder responder) {
        nlohmann::json parsed = arguments_of(request);
        run_command(field<std::string>(parsed, "command", ""),
                    parsed.contains("arguments") ? parsed["arguments"].dump() : "{}",
                    [responder](std::string answer) { responder.finish(std::move(answer)); });
      });
  if (!server) return server.error();
  local_server_ = std::move(*server);
  return {};
}

// On a thread of its own: who asks is a part of what ends.
void RunningNode::end_soon(bool politely) {
  std::lock_guard lock(end_mutex_);
  if (!ender_.joinable()) ender_ = std::thread([this, politely] { end(politely); });
}

void RunningNode::fail(std::string reason) {
  log::error("node", reason + "; this node ends, start it again");
  {
    std::lock_guard lock(end_mutex_);
    if (ending_) return;
    failure_ = std::move(reason);
  }
  end_soon(true);
}

std::string RunningNode::metrics_text() {
  auto cluster = cluster_state_.read();
  double alive = 0;
  for (const NodeInfo& node : cluster->nodes) alive += cluster->alive(node.id) ? 1 : 0;
  metrics_.gauge("gpunode_nodes_alive", "Nodes of the cluster that are alive, this one included")
      .set(alive);
  for (auto [lane, label] :
       {std::pair(transport::Lane::control, "control"), std::pair(transport::Lane::bulk, "bulk")}) {
    transport::LinkCounters counters = entry_->link->counters(lane);
    telemetry::Labels labels{{"lane", label}};
    metrics_.gauge("gpunode_link_sent_bytes", "Bytes sent since the start", labels)
        .set(static_cast<double>(counters.bytes_sent));
    metrics_.gauge("gpunode_link_received_bytes", "Bytes received since the start", labels)
        .set(static_cast<double>(counters.bytes_received));
    metrics_.gauge("gpunode_link_dropped_frames", "Frames thrown away unparsed", labels)
        .set(static_cast<double>(counters.frames_dropped));
  }
  return metrics_.prometheus_text();
}

void RunningNode::run_command(const std::string& name, const std::string& arguments,
                              std::function<void(std::string)> answer) {
  static const std::vector<std::string> kKnown = {
      "node.info", "nodes",        "leave", "stop",     "token.create", "train",  "jobs",
      "job.show",  "job.progress", "serve", "generate", "models",       "metrics"};
  caf::actor target;
  if (name == "metrics") return answer(ok_json({{"text", metrics_text()}}));
  if (name == "node.info") return answer(node_info_json(*entry_));
  if (name == "nodes") return answer(nodes_json(*cluster_state_.read(), parts_.clock->now()));
  if (name == "leave" || name == "stop") {
    answer(ok_json(nlohmann::json::object()));
    return end_soon(name == "leave");
  }
  if (name == "token.create") target = children_.admission;
  if (name == "train" || name == "jobs" || name == "job.show" || name == "job.progress")
    target = children_.jobs;
  if (name == "serve" || name == "generate" || name == "models") target = children_.serving;
  if (!target)
    return answer(error_json({ErrorCode::invalid_argument, unknown_word("command", name, kKnown)}));
  caf::anon_send(target, Command{name, arguments, std::move(answer)});
}

std::string RunningNode::command(const std::string& name, const std::string& arguments) {
  auto promise = std::make_shared<std::promise<std::string>>();
  auto answer = promise->get_future();
  run_command(name, arguments, [promise](std::string text) { promise->set_value(text); });
  return answer.get();
}

void RunningNode::publish(const std::string& name, Handler handler) {
  Publish order{name, nullptr, true};
  if (handler)
    order.handler = [system = system_.get(), handler = std::move(handler)](
                        const NodeId&, SharedBytes request, CallReply reply) {
      system->spawn<caf::detached>([handler, request, reply] {
        auto answer = handler(as_text(request.view));
        reply(answer ? Result<SharedBytes>(SharedBytes::from(to_bytes(as_bytes(*answer))))
                     : Result<SharedBytes>(answer.error()));
      });
    };
  caf::anon_send(children_.calls, std::move(order));
}

Result<std::string> RunningNode::call(const std::string& name, std::string_view request,
                                      std::chrono::milliseconds patience) {
  auto promise = std::make_shared<std::promise<Result<SharedBytes>>>();
  auto answer = promise->get_future();
  caf::anon_send(children_.calls, CallRequest{{},
                                              name,
                                              SharedBytes::from(to_bytes(as_bytes(request))),
                                              patience,
                                              [promise](Result<SharedBytes> result) {
                                                promise->set_value(std::move(result));
                                              }});
  auto result = answer.get();
  if (!result) return result.error();
  return std::string(as_text(result->view));
}

// Shutdown in order: no intake, actors end (goodbyes go out), sockets close in their threads,
// threads are joined.
void RunningNode::end(bool politely) {
  {
    std::unique_lock lock(end_mutex_);
    if (ending_) {
      ended_changed_.wait(lock, [this] { return ended_; });
      return;
    }
    ending_ = true;
  }
  if (local_server_) local_server_->close();
  if (entry_ && entry_->join_socket) entry_->join_socket->close();
  if (system_) {
    // First the supervisor, so that what ends now is no failure.
    for (caf::actor* child : {&children_.supervisor, &children_.jobs, &children_.serving,
                              &children_.admission, &children_.calls})
      if (*child) caf::anon_send(*child, Shutdown{});
    if (children_.cluster && politely) caf::anon_send(children_.cluster, Shutdown{});
    // The goodbye must reach the link before the link closes.
    std::this_thread::sleep_for(politely ? kGoodbyeTerm : std::chrono::milliseconds(0));
    if (children_.cluster && !politely)
      caf::anon_send_exit(children_.cluster, caf::exit_reason::kill);
  }
  if (entry_ && entry_->link) entry_->link->close();
  if (router_) router_->clear();
  children_ = {};
  if (system_) {
    Time deadline = parts_.clock->now() + kShutdownPatience;
    while (system_->registry().running() > 0 && parts_.clock->now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (system_->registry().running() > 0) {
      log::warning("node", "some work did not end in time; stopping without it");
      system_->await_actors_before_shutdown(false);
    }
    system_.reset();
  }
  std::lock_guard lock(end_mutex_);
  ended_ = true;
  ended_changed_.notify_all();
}

}  // namespace

Result<std::unique_ptr<Node>> start_node(NodeConfig config, NodeParts parts) {
  auto node = std::make_unique<RunningNode>(std::move(config), std::move(parts));
  if (auto started = node->start(); !started) return started.error();
  return std::unique_ptr<Node>(std::move(node));
}

}  // namespace node

Result<std::unique_ptr<Node>> Node::start(NodeConfig config) {
  return node::start_node(std::move(config), {});
}

}  // namespace gpunode
