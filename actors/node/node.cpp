// The composition root: the one place that names concrete links, clocks, files and backends. Its
// list of children (spawn_children) is the picture of a running node.
//
//   link threads -> Router -> cluster    who is here, directory
//                          -> calls      named calls between nodes
//                          -> job board  -> job -> trainer (device thread), checkpoint writer
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

#include <algorithm>
#include <future>
#include <shared_mutex>
#include <thread>

#include "actors/answer_once.hpp"
#include "actors/cluster_state.hpp"
#include "actors/compute/trainer.hpp"
#include "actors/health/health_actor.hpp"
#include "actors/inference/serving_actor.hpp"
#include "actors/job/job_board_actor.hpp"
#include "actors/job/job_environment.hpp"
#include "actors/json_answer.hpp"
#include "actors/node/admission_actor.hpp"
#include "actors/node/call_actor.hpp"
#include "actors/node/cluster_actor.hpp"
#include "actors/node/commands.hpp"
#include "actors/node/endpoints.hpp"
#include "actors/node/entry.hpp"
#include "actors/node/link_metrics.hpp"
#include "actors/node/node_parts.hpp"
#include "actors/node/router.hpp"
#include "actors/node/supervisor.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cuda/cuda_backend.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/nearest.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/base/version.hpp"
#include "runtime/storage/posix_file_system.hpp"
#include "runtime/telemetry/registry.hpp"
#include "runtime/transport/join_socket.hpp"
#include "runtime/transport/local_socket.hpp"

namespace gpunode {
namespace node {
namespace {

constexpr auto kShutdownPatience = std::chrono::seconds(10);
constexpr auto kFirstPeerPatience = std::chrono::seconds(10);
constexpr auto kLeavePatience = std::chrono::seconds(25);  // what a spot notice leaves at least
constexpr auto kGoodbyeTerm = std::chrono::milliseconds(150);
constexpr std::chrono::milliseconds kLongestPatience = std::chrono::hours(24 * 365);

// The device that jobs and models of this node use: a GPU that has every operation, else the CPU.
std::unique_ptr<ops::Backend> open_backend() {
  auto gpu = cuda::open_backend();
  if (gpu && (*gpu)->operations().missing().empty()) return std::move(*gpu);
  if (gpu) log::info("node", "the GPU has no twin yet of every operation; computing on the CPU");
  return cpu::open_backend();
}

Error stopping() {
  return {ErrorCode::cancelled, "this node is stopping"};
}

// The embedder's own code; what it throws is an answer too.
Result<std::string> run_handler(const Node::Handler& handler, std::string_view request) {
  try {
    return handler(request);
  } catch (const std::exception& thrown) {
    return Error{ErrorCode::internal, std::string("the handler threw: ") + thrown.what()};
  } catch (...) {
    return Error{ErrorCode::internal, "the handler threw"};
  }
}

class RunningNode final : public Node {
 public:
  RunningNode(NodeConfig config, NodeParts parts)
      : config_(std::move(config)), parts_(std::move(parts)) {
    if (!parts_.files) parts_.files = &posix_files_;
    if (!parts_.clock) parts_.clock = &system_clock_;
    if (parts_.version.empty()) parts_.version = program_version();
    router_ = std::make_unique<Router>(*parts_.clock);
  }
  ~RunningNode() override {
    stop();
    if (ender_.joinable()) ender_.join();
  }

  Result<void> start() {
    auto started = start_parts();
    std::lock_guard lock(end_mutex_);
    starting_ = false;
    ended_changed_.notify_all();
    return started;
  }

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
  // Whether work that did not end in time still uses the parts of this node. After the end.
  bool in_use() const { return system_ && system_->registry().running() > 0; }

 private:
  Result<void> start_parts();
  void wait_for_a_peer();
  void spawn_children();
  Result<void> open_doors();
  void end(bool politely);
  std::string metrics_text();
  void end_soon(bool politely);
  void leave_jobs();
  void leave_if_it_may(const std::string& arguments, std::function<void(std::string)> answer);
  void fail(std::string reason);
  void stop_children(bool politely);
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
  std::unique_ptr<jobs::JobEnvironment> environment_;

  caf::actor_system_config system_config_;
  std::unique_ptr<caf::actor_system> system_;
  struct Children {
    caf::actor cluster, calls, job_board, admission, serving, supervisor;
  };
  template <class Message>
  void send(caf::actor Children::*child, Message message);

  std::shared_mutex children_mutex_;
  Children children_;  // null before the start and after the end
  std::unique_ptr<transport::LocalServer> local_server_;

  std::mutex end_mutex_;
  std::condition_variable ended_changed_;
  bool starting_ = true, ending_ = false, ended_ = false;
  std::string failure_;
  std::thread ender_;  // of a `leave` or `stop` that came as a command
};

Result<void> RunningNode::start_parts() {
  backend_ = open_backend();
  if (config_.threads <= 0)
    config_.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  auto entry = enter(config_, parts_, *router_);
  if (!entry) return entry.error();
  entry_ = std::move(*entry);
  environment_ = std::make_unique<jobs::JobEnvironment>(
      jobs::JobEnvironment::Options{backend_.get(), parts_.files, parts_.clock, config_.threads,
                                    entry_->state.path(), parts_.version});
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
  children_.job_board = jobs::spawn_job_board(
      system, {self, entry.boot, config_.labels, environment_.get(), &cluster_state_, entry.link,
               compute::add_of(*backend_),
               [this](std::uint64_t stream, caf::actor job, auto places) {
                 router_->set_job(stream, job, std::move(places));
               },
               children_.calls, children_.cluster, children_.admission, &metrics_});
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
                                           {"job board", children_.job_board, nullptr},
                                           {"serving", children_.serving, nullptr},
                                           {"health", spawn_health(), spawn_health}},
                                          [this](std::string reason) { fail(std::move(reason)); });
  for (const caf::actor& child : {children_.calls, children_.job_board, children_.admission})
    caf::anon_send(children_.cluster, Subscribe{child});
  router_->set_targets(
      {children_.cluster, children_.calls, children_.job_board, children_.admission});
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
  record_links(metrics_, *entry_->link);
  return metrics_.prometheus_text();
}

// From any thread. The lock is held until the message is in the mailbox: a handle may not outlive
// the actor system. A node that has ended drops the message.
template <class Message>
void RunningNode::send(caf::actor Children::*child, Message message) {
  std::shared_lock lock(children_mutex_);
  caf::anon_send(children_.*child, std::move(message));
}

void RunningNode::run_command(const std::string& name, const std::string& arguments,
                              std::function<void(std::string)> answer) {
  static const std::vector<std::string> kKnown = {
      "node.info", "nodes",    "leave",        "stop",     "token.create", "train",
      "jobs",      "job.show", "job.progress", "job.stop", "job.resume",   "job.recover",
      "serve",     "generate", "models",       "metrics",  "job.log",      "job.trace"};
  caf::actor Children::*target = nullptr;
  if (name == "metrics") return answer(ok_json({{"text", metrics_text()}}));
  if (name == "node.info") return answer(node_info_json(*entry_));
  if (name == "nodes") return answer(nodes_json(*cluster_state_.read(), parts_.clock->now()));
  if (name == "leave") return leave_if_it_may(arguments, std::move(answer));
  if (name == "stop") {
    answer(ok_json(nlohmann::json::object()));
    return end_soon(false);
  }
  if (name == "token.create") target = &Children::admission;
  if (name == "train" || name == "jobs" || name.starts_with("job.")) target = &Children::job_board;
  if (name == "serve" || name == "generate" || name == "models") target = &Children::serving;
  if (!target)
    return answer(error_json({ErrorCode::invalid_argument, unknown_word("command", name, kKnown)}));
  send(target, Command{name, arguments,
                       AnswerOnce<std::string>(std::move(answer), error_json(stopping()))});
}

// Refused, with the reason, by who is the last to hold the state of a job.
void RunningNode::leave_if_it_may(const std::string& arguments,
                                  std::function<void(std::string)> answer) {
  auto decide = [this, answer = std::move(answer)](std::string verdict) {
    answer(verdict);
    if (field<bool>(arguments_of(verdict), "ok", false)) end_soon(true);
  };
  send(&Children::job_board,
       Command{"leave", arguments,
               AnswerOnce<std::string>(std::move(decide), error_json(stopping()))});
}

// The jobs go on without this node before it says goodbye, so nobody waits for a detector.
void RunningNode::leave_jobs() {
  auto promise = std::make_shared<std::promise<void>>();
  auto left = promise->get_future();
  send(&Children::job_board,
       Leave{kLeavePatience, AnswerOnce<bool>([promise](bool) { promise->set_value(); }, true)});
  left.wait_for(kLeavePatience + kGoodbyeTerm);
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
    order.handler = [this, handler = std::move(handler)](const NodeId&, SharedBytes request,
                                                         CallReply reply) {
      // Called by an actor of this system, which therefore is there.
      system_->spawn<caf::detached>([handler, request, reply] {
        auto answer = run_handler(handler, as_text(request.view));
        reply(answer ? Result<SharedBytes>(SharedBytes::from(to_bytes(as_bytes(*answer))))
                     : Result<SharedBytes>(answer.error()));
      });
    };
  send(&Children::calls, std::move(order));
}

Result<std::string> RunningNode::call(const std::string& name, std::string_view request,
                                      std::chrono::milliseconds patience) {
  auto promise = std::make_shared<std::promise<Result<SharedBytes>>>();
  auto answer = promise->get_future();
  AnswerOnce<Result<SharedBytes>> done(
      [promise](Result<SharedBytes> result) { promise->set_value(std::move(result)); }, stopping());
  // A century would not fit into nanoseconds from now on.
  patience = std::clamp(patience, std::chrono::milliseconds(0), kLongestPatience);
  send(&Children::calls,
       CallRequest{
           {}, name, SharedBytes::from(to_bytes(as_bytes(request))), patience, std::move(done)});
  auto result = answer.get();
  if (!result) return result.error();
  return std::string(as_text(result->view));
}

// Ends the actors, the link under them in between. What is still at work after the patience (a
// handler of the embedder's own, a scan of all data) keeps the actor system and the node's parts.
void RunningNode::stop_children(bool politely) {
  // First the supervisor, so that what ends now is no failure.
  for (caf::actor Children::*child : {&Children::supervisor, &Children::job_board,
                                      &Children::serving, &Children::admission, &Children::calls})
    send(child, Shutdown{});
  if (politely) {
    send(&Children::cluster, Shutdown{});
    // The goodbye must reach the link before the link closes.
    std::this_thread::sleep_for(kGoodbyeTerm);
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
  Time deadline = parts_.clock->now() + kShutdownPatience;
  while (system_->registry().running() > 0 && parts_.clock->now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (system_->registry().running() > 0)
    return log::warning("node", "some work did not end in time; stopping without it");
  system_.reset();
}

// Shutdown in order: no intake, actors end (goodbyes go out), sockets close in their threads,
// threads are joined.
void RunningNode::end(bool politely) {
  {
    std::unique_lock lock(end_mutex_);
    // A child may fail, or a command to stop may come, before the start is over.
    ended_changed_.wait(lock, [this] { return !starting_; });
    if (ending_) {
      ended_changed_.wait(lock, [this] { return ended_; });
      return;
    }
    ending_ = true;
    politely = politely && failure_.empty();
  }
  if (politely && system_) leave_jobs();
  if (local_server_) local_server_->close();
  if (entry_ && entry_->join_socket) entry_->join_socket->close();
  if (system_) stop_children(politely);
  std::lock_guard lock(end_mutex_);
  ended_ = true;
  ended_changed_.notify_all();
}

// What the embedder holds. Destroying it ends the node, and frees it unless work is left that would
// touch freed memory: then it is left behind, as the embedder's thread must not hang for others'.
class NodeFace final : public Node {
 public:
  explicit NodeFace(std::unique_ptr<RunningNode> node) : node_(std::move(node)) {}
  ~NodeFace() override {
    node_->stop();
    if (!node_->in_use()) return;
    static std::mutex mutex;
    static auto& left_behind = *new std::vector<std::unique_ptr<RunningNode>>;
    std::lock_guard lock(mutex);
    left_behind.push_back(std::move(node_));
  }

  void publish(const std::string& name, Handler handler) override {
    node_->publish(name, std::move(handler));
  }
  Result<std::string> call(const std::string& name, std::string_view request,
                           std::chrono::milliseconds patience) override {
    return node_->call(name, request, patience);
  }
  std::string command(const std::string& name, const std::string& arguments) override {
    return node_->command(name, arguments);
  }
  std::string id() const override { return node_->id(); }
  std::string name() const override { return node_->name(); }
  std::vector<std::string> endpoints() const override { return node_->endpoints(); }
  std::vector<std::string> join_endpoints() const override { return node_->join_endpoints(); }
  void leave() override { node_->leave(); }
  void stop() override { node_->stop(); }
  void wait() override { node_->wait(); }
  std::string failure() override { return node_->failure(); }

 private:
  std::unique_ptr<RunningNode> node_;
};

}  // namespace

Result<std::unique_ptr<Node>> start_node(NodeConfig config, NodeParts parts) {
  auto node = std::make_unique<RunningNode>(std::move(config), std::move(parts));
  RunningNode& running = *node;
  auto face = std::make_unique<NodeFace>(std::move(node));
  if (auto started = running.start(); !started) return started.error();
  return std::unique_ptr<Node>(std::move(face));
}

}  // namespace node

Result<std::unique_ptr<Node>> Node::start(NodeConfig config) {
  return node::start_node(std::move(config), {});
}

}  // namespace gpunode
