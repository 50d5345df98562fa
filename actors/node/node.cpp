// The composition root: the one place that names concrete links, clocks, files and backends. Its
// list of children (spawn_children) is the picture of a running node.
//
//   link threads -> Router -> cluster    who is here, directory
//                          -> Calls      named calls between nodes; handler threads
//                          -> job board  -> job -> trainer (device thread), checkpoint writer
//                          -> that job   what comes on bulk
//                          -> admission  <- join port
//   local socket -> commands -> admission, job board, serving
//   health -> directory, devices; serving -> calls, models
//   supervisor watches them all
#include "actors/node/node.hpp"

#include <caf/logger.hpp>
#include <caf/send.hpp>

#include <algorithm>
#include <mutex>
#include <span>
#include <thread>

#include "actors/compute/trainer.hpp"
#include "actors/health/health_actor.hpp"
#include "actors/inference/serving_actor.hpp"
#include "actors/job/job_board_actor.hpp"
#include "actors/json_answer.hpp"
#include "actors/node/admission_actor.hpp"
#include "actors/node/call_actor.hpp"
#include "actors/node/cluster_actor.hpp"
#include "actors/node/commands.hpp"
#include "actors/node/data_offers.hpp"
#include "actors/node/detail/running_node.hpp"
#include "actors/node/supervisor.hpp"
#include "actors/node/vote_signer.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cuda/cuda_backend.hpp"
#include "runtime/base/descriptor.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode {
namespace node {
namespace {

constexpr auto kFirstPeerTimeout = std::chrono::seconds(10);
constexpr std::size_t kDescriptors = 96;

Result<std::unique_ptr<ops::Backend>> usable_gpu(int ordinal) {
  auto gpu = cuda::open_backend(ordinal);
  if (!gpu) return gpu;
  if (const auto lacks = (*gpu)->operations().missing(); !lacks.empty())
    return Error{ErrorCode::unsupported,
                 (*gpu)->device().name + " lacks the operation " + std::string(lacks.front())};
  return gpu;
}

// Those of the machine that `wanted` names: "auto" takes all GPUs that have every operation, else
// the CPU. Fails with: invalid_argument; no_device, unsupported where a named GPU cannot be used.
Result<std::unique_ptr<compute::DeviceRoster>> open_devices(const std::string& wanted) {
  auto devices = std::make_unique<compute::DeviceRoster>(cpu::open_backend());
  const auto choice = parse_devices(wanted);
  if (!choice) return choice.error();
  if (!choice->uses_gpus) return devices;
  const auto count = cuda::device_count();
  if (!count) {
    if (choice->is_must) return count.error().within("--device " + wanted);
    if (count.error().code == ErrorCode::unavailable) log::warning("node", count.error().message());
    return devices;
  }
  if (!choice->ordinals.empty() && *choice->ordinals.rbegin() >= *count)
    return Error{ErrorCode::no_device, "--device " + wanted + ": there is no GPU number " +
                                           std::to_string(*choice->ordinals.rbegin()) +
                                           "; the driver shows " + std::to_string(*count)};
  for (int ordinal = 0; ordinal < *count; ++ordinal) {
    if (!choice->ordinals.empty() && !choice->ordinals.contains(ordinal)) continue;
    const std::string name = "cuda:" + std::to_string(ordinal);
    auto gpu = usable_gpu(ordinal);
    if (gpu) {
      const auto place = cuda::pci_bus_id(ordinal);
      if (!place)
        log::warning("node", place.error().message() + "; no health verdict will drain the GPU");
      devices->add(name, std::move(*gpu), place ? *place : std::string());
    } else if (choice->is_must) {
      return gpu.error().within("--device " + wanted);
    } else {
      log::warning("node", name + " is not used: " + gpu.error().message());
    }
  }
  return devices;
}

// What the embedder holds. Destroying it ends the node, and frees it unless work is left that would
// touch freed memory: then it is left behind, as the embedder's thread must not hang for others'.
class NodeFace final : public Node {
 public:
  explicit NodeFace(std::unique_ptr<RunningNode> node) : node_(std::move(node)) {}
  ~NodeFace() override {
    node_->end(false);
    if (!node_->in_use()) return;
    static std::mutex mutex;
    static auto& left_behind = *new std::vector<std::unique_ptr<RunningNode>>;
    std::lock_guard lock(mutex);
    left_behind.push_back(std::move(node_));
  }

  Result<void> publish(const std::string& name, Handler handler, Run run) override {
    return node_->publish(name, std::move(handler), run);
  }
  Result<std::string> call(const std::string& name, std::string_view request,
                           std::chrono::milliseconds timeout, Retry retry) override {
    return node_->call(name, request, timeout, retry);
  }
  std::string command(const std::string& name, const std::string& arguments) override {
    return node_->command(name, arguments);
  }
  std::string id() const override { return node_->entry().identity.id().text(); }
  std::string name() const override { return node_->entry().name; }
  std::vector<std::string> endpoints() const override { return node_->own().endpoints; }
  std::vector<std::string> join_endpoints() const override { return node_->own().join_endpoints; }
  std::string metrics_endpoint() const override { return node_->metrics_endpoint(); }
  std::string http_endpoint() const override { return node_->http_endpoint(); }
  void leave() override { node_->end(true); }
  void stop() override { node_->end(false); }
  void wait() override { node_->wait(); }
  std::string failure() override { return node_->failure(); }

 private:
  std::unique_ptr<RunningNode> node_;
};

}  // namespace

Result<void> RunningNode::start_parts(const AddDevices& add_devices) {
  // What it opens to begin with; without them libzmq ends the process.
  if (const std::size_t free = free_descriptors(kDescriptors); free < kDescriptors)
    return {ErrorCode::resource_exhausted,
            "this process may open " + std::to_string(free) +
                " more files and sockets, and a node needs " + std::to_string(kDescriptors) +
                " to begin with and a few for each peer: raise the limit (ulimit -n 65536)"};
  auto devices = open_devices(config_.device);
  if (!devices) return devices.error();
  devices_ = *std::move(devices);
  if (add_devices) add_devices(*devices_);
  for (const auto& device : devices_->devices())
    device->on_lost([this](const auto& lost, const std::string& reason, const auto& users) {
      on_device_lost(lost.id(), reason, users);
    });
  if (config_.threads <= 0)
    config_.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  auto entry = enter(config_, parts_, *router_);
  security::wipe(std::as_writable_bytes(std::span(config_.token)));
  config_.token.clear();
  if (!entry) return entry.error();
  entry_ = std::move(*entry);
  authority_ = entry_->authority(*parts_.clock);
  limits_ = std::make_shared<PeerLimits>(
      PeerLimits::Options{parts_.clock, &metrics_, &authority_, entry_->offenders.get()});
  environment_ = std::make_unique<jobs::JobEnvironment>(jobs::JobEnvironment::Options{
      devices_.get(), parts_.files, parts_.clock, config_.threads, entry_->state.path(),
      parts_.version, config_.bulk_plain, *parse_offers(config_.data_sets), &authority_});
  newest_checkpoints_ = std::make_unique<checkpoint::NewestCheckpoints>(
      *parts_.files, environment_->checkpoint_root());
  system_config_.set("scheduler.policy", caf::atom("sharing"));
  system_config_.set("scheduler.max-throughput", std::size_t{100});
  system_config_.set("scheduler.max-threads", std::size_t{2});
  system_ = std::make_unique<caf::actor_system>(system_config_);
  spawn_children();
  // CAF leaves a reference to the system's logger in every thread that spawns, and its destructor
  // waits for them; the node may be ended by another thread than this one.
  caf::logger::set_current_actor_system(nullptr);
  if (auto met = wait_for_a_peer(); !met) return met;
  return open_doors();
}

// A node that has just joined is up when it sees the others and knows what they offer; a restarted
// one may be the first. Fails with: permission_denied (it was put out).
Result<void> RunningNode::wait_for_a_peer() {
  if (config_.join.empty()) return {};
  Time deadline = parts_.clock->now() + kFirstPeerTimeout;
  while (parts_.clock->now() < deadline) {
    auto cluster = cluster_state_.read();
    for (const NodeInfo& node : cluster->nodes)
      if (!node.self && cluster->alive(node.id) && caught_up_) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (auto out = entry_->shut_outs->put_out(*cluster_state_.read())) return *std::move(out);
  log::warning(
      "node",
      "admitted, but no member has told yet what the cluster offers; going on, it is tried "
      "again and again");
  return {};
}

void RunningNode::spawn_children() {
  caf::actor_system& system = *system_;
  Entry& entry = *entry_;
  NodeId self = entry.identity.id();
  NodeInfo me;
  me.id = self;
  me.name = entry.name;
  me.self = true;
  me.endpoints = entry.addresses.control;
  me.join_endpoints = entry.addresses.join;
  cluster_state_.write({self, {me}, {}, {}});  // until the cluster actor has its own
  auto cluster_options = entry.cluster_options(config_, cluster_state_, *parts_.clock);
  cluster_options.on_caught_up = [this] { caught_up_ = true; };
  children_.cluster = spawn_cluster(system, std::move(cluster_options));
  calls_ = std::make_shared<Calls>(
      CallsOptions{self, entry.link, &cluster_state_, parts_.clock,
                   [this](SetEntry order) { send(&Children::cluster, std::move(order)); },
                   mix(entry.boot, 3), &metrics_, call_threads_, &authority_, limits_});
  children_.calls = spawn_calls(system, calls_);
  children_.admission = spawn_admission(
      system, {&entry.identity, &entry.state.files(), entry.state.path(), entry.admissions.get(),
               entry.tokens, entry.audit, entry.witness, entry.refusals, entry.name, entry.link,
               &cluster_state_, children_.cluster, *IpRanges::parse(config_.allow), parts_.clock,
               entry.http_audit, entry.offenders, entry.shut_outs});
  children_.job_board = jobs::spawn_job_board(
      system, {self, entry.boot, config_.labels, environment_.get(), &cluster_state_, entry.link,
               compute::add_of(devices_->host()),
               [this](std::uint64_t stream, caf::actor job, auto places) {
                 router_->set_job(stream, job, std::move(places));
               },
               children_.calls, children_.cluster, children_.admission, &metrics_,
               config_.device_timeout, std::make_shared<VoteSigner>(entry.identity), &authority_});
  children_.serving = inference::spawn_serving(
      system, {[this]() -> Result<compute::NodeDevice*> {
                 const auto ready = devices_->ready();
                 if (!ready) return ready.error();
                 return ready->front();
               },
               parts_.files, parts_.clock, &cluster_state_, environment_->checkpoint_root(),
               children_.calls, children_.job_board, children_.cluster, &metrics_,
               entry.state.path() / "served.json", entry.state.path() / "models", model_pulses_});
  auto spawn_health = [this, &system, &entry] {
    return health::spawn_health(
        system, {std::make_shared<probe::ProcHostProbe>(entry.state.path()),
                 std::shared_ptr<probe::GpuProbe>(probe::open_nvml_probe()), parts_.clock,
                 children_.cluster, drain_by_verdict(*devices_), &metrics_});
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
      {children_.cluster, children_.job_board, children_.admission, calls_, &authority_, limits_});
  caf::anon_send(children_.cluster, Begin{});
}

// For this machine's owner and collectors; the other doors are open since enter().
Result<void> RunningNode::open_doors() {
  if (!config_.metrics.empty()) {
    auto server = serve_metrics(config_.metrics, [this] { return metrics(); });
    if (!server) return server.error();
    metrics_server_ = std::move(*server);
  }
  if (!config_.http.empty())
    if (auto opened = open_http_front(); !opened) return opened.error();
  if (!config_.local_commands) return {};
  auto server = transport::LocalServer::open(
      entry_->state.socket_path().string(),
      [this](std::string request, transport::Responder responder) {
        nlohmann::json parsed = arguments_of(request);
        run_command(
            field<std::string>(parsed, "command", ""),
            parsed.contains("arguments") ? parsed["arguments"].dump() : "{}",
            [responder](std::string answer) { responder.finish(std::move(answer)); },
            [responder] { return responder.is_awaited(); });
      });
  if (!server) return server.error();
  local_server_ = std::move(*server);
  return {};
}

Result<std::unique_ptr<Node>> start_node(NodeConfig config, NodeParts parts,
                                         const AddDevices& add_devices) {
  if (auto good = check_config(config); !good) return good.error();
  auto node = std::make_unique<RunningNode>(std::move(config), std::move(parts));
  RunningNode& running = *node;
  auto face = std::make_unique<NodeFace>(std::move(node));
  if (auto started = running.start(add_devices); !started) return started.error();
  return std::unique_ptr<Node>(std::move(face));
}

}  // namespace node

Result<std::unique_ptr<Node>> Node::start(NodeConfig config) {
  return node::start_node(std::move(config), {});
}

Result<void> Node::check(const NodeConfig& config) {
  return node::check_config(config);
}

}  // namespace gpunode
