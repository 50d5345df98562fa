// A gpunode node inside your own program: this is the face that an embedder sees. Standard types
// only.
//
//   gpunode::NodeConfig config;
//   config.state_directory = "/var/lib/my-node";
//   config.listen = "0.0.0.0:7601";
//   auto node = gpunode::Node::start(config);
//   if (!node) { std::cerr << node.error().message() << '\n'; return 1; }
//   // Result<std::string> square(std::string_view request); needs the role serve.
//   if (auto done = (*node)->publish("square", square); !done) return 1;
//   auto answer = (*node)->call("square", "12", std::chrono::seconds(1));
//   (*node)->wait();
//
// A node installs no signal handlers and reads no command line. Its threads take signals that were not
// blocked before start(). Several nodes may live in one process. A child of fork() has no use of them:
// it calls exec. What it has to say goes to standard error, unless log::set_sink (runtime/base/log.hpp)
// takes it. A model of your own joins training and serving through kernels/model/model.hpp and
// kernels/model/registry.hpp: register it before the node starts.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"

namespace gpunode {

// A file or folder of this machine that jobs may read, with all in it that no link leads to.
struct DataOffer {
  std::string path;
  // Whose jobs may, beside this node's own: ids of nodes (64 hexadecimal digits), or "any" for those of
  // every node that may submit jobs.
  std::vector<std::string> users = {"any"};
};

// Who may ask over HTTP, and how.
struct HttpAccess {
  // PEM files, both or none: TLS 1.3 and nothing else is spoken with them. Read anew when they change.
  std::string certificate = {};
  std::string key = {};
  // Pages that a browser may ask from, "https://app.example"; "*": any, which wants keys.
  std::vector<std::string> origins = {};
  // Beyond loopback: let anybody ask, let everybody on the way read and change it.
  bool without_keys = false;
  bool without_tls = false;
};

struct NodeConfig {
  // Identity, admissions, jobs, checkpoints; private (0700); one process at a time. Restarting with
  // the same directory is the same node.
  std::string state_directory;
  // Label for people; empty: the host's name.
  std::string name;
  // "host:port" of the control port; bulk is port + 1 and join is port + 2. Port 0 takes free ones.
  // Empty: this node dials and cannot be dialled.
  std::string listen = "0.0.0.0:7601";
  // Where those who dial any of the three ports may come from, "10.0.0.0/8" or an address, this
  // machine apart; others are hung up on before a byte is read. Empty: from anywhere.
  std::vector<std::string> allow = {};
  // "host" or "host:port" under which others reach it; empty: found out, and where it cannot be
  // reached the node is dial-only and says so.
  std::string advertise;
  // Where to join ("host:port" of a member's join port, 7603 by default); empty: go on with the
  // cluster of the state directory, or found a new one.
  std::string join;
  // The join token. Needed once; a node that is admitted restarts without it. Wiped after use; a copy
  // that the caller keeps is the caller's to wipe.
  std::string token;
  // "key=value" or "key"; jobs may ask for them.
  std::vector<std::string> labels;
  // What this node offers to jobs, by the name that it has in a job file (data.set): jobs that were
  // submitted elsewhere read nothing else here.
  std::map<std::string, DataOffer> data_sets = {};
  // Compute threads of each device; 0: one a core.
  int threads = 0;
  // What jobs and models compute on: "auto" (every NVIDIA GPU that can, else the CPU), "cpu", "cuda"
  // (every GPU, of which there must be one), "cuda:0,2" (just these).
  std::string device = "auto";
  // A device that shows no sign of getting on for so long while it computes is lost.
  std::chrono::milliseconds device_timeout = std::chrono::minutes(2);
  // Called once for each device that is lost, on a thread of its own: the node has left its jobs on
  // that device, computes no more on it, and goes on with what it has. Nothing but a new process
  // gives a GPU back. May be empty.
  std::function<void(const std::string& device, const std::string& reason)> on_device_lost = {};
  // Let bulk traffic travel unsealed to peers that allow it too. Trusts all who can read or inject
  // on that network.
  bool bulk_plain = false;
  // "127.0.0.1:9464", or port 0 for a free one: answers GET /metrics there, for Prometheus. Refused
  // unless it is loopback, as nothing authenticates who reads; empty: not at all.
  std::string metrics = {};
  // "127.0.0.1:8000", or port 0 for a free one: OpenAI's completions there, for every model that the
  // cluster serves. Beyond loopback it wants keys (`gpunode http-key`) and TLS; empty: not at all.
  std::string http = {};
  HttpAccess http_access = {};
  // Threads on which published handlers run, and how many calls may wait for one of them, half of
  // those of one caller; a call beyond that is refused with resource_exhausted. Raising the first
  // lets more slow handlers run beside each other, and costs a stack each. At least 1.
  std::size_t handler_threads = 8;
  std::size_t handler_queue = 32 * 1024;
  // Answer commands of the gpunode program on <state_directory>/node.sock.
  bool local_commands = true;
};

class Node {
 public:
  // Starts the node, joining if the configuration says so. Blocks until it is up. Fails with a
  // cause and a remedy in the detail; nothing is left running then.
  static Result<std::unique_ptr<Node>> start(NodeConfig config);
  virtual ~Node() = default;
  // Whether start() would take these values; makes and opens nothing. Fails with invalid_argument.
  static Result<void> check(const NodeConfig& config);

  // Bytes of a request, and of an answer that goes to another node.
  static constexpr std::size_t kMaxCallBytes = std::size_t{16} << 20;

  // Where a handler runs: on one of the node's handler threads, or at once on the thread that
  // brings the request, which saves a wake-up. That one must be done within microseconds, as nothing
  // else comes in meanwhile, and may not call, leave or stop.
  enum class Run { on_handler_thread, at_once };
  // What this node answers to every node that calls the name. An empty function withdraws the name;
  // calls that run are not waited for. Fails with invalid_argument: a name that is empty, longer
  // than 248 bytes, or begins as gpunode's own do ("job.", "queue.", "generate.", "node.", "model/", "model.");
  // permission_denied: this node lacks the role serve, which its token has to give;
  // resource_exhausted: some 500 names are published; cancelled: the node has stopped.
  using Handler = std::function<Result<std::string>(std::string_view request)>;
  virtual Result<void> publish(const std::string& name, Handler handler,
                               Run run = Run::on_handler_thread) = 0;

  // Whether a call whose node is lost may run again on another one, or fails.
  enum class Retry { never, where_lost };
  // Calls a published name on a live node that offers it, drawn at random, this one included; on
  // another one if that refuses it before the handler has run. Exactly one answer or error within
  // `timeout`. Fails with: invalid_argument (over kMaxCallBytes), unavailable (no live node has offered
  // it until then), not_found (who did offers it no more), resource_exhausted (too many calls wait
  // there, or too many of its answers here unread: the detail says whether the handler has run),
  // permission_denied (this node lacks the role call), peer_lost (its node is gone: the handler may
  // have run), timeout, and whatever the handler fails with; of its detail another node is told 4 KiB.
  // Not on a thread that runs a handler at once: wrong_state; a handler that calls its own node waits
  // for another handler thread.
  virtual Result<std::string> call(const std::string& name, std::string_view request,
                                   std::chrono::milliseconds timeout,
                                   Retry retry = Retry::never) = 0;

  // One command as the gpunode program gives it: a name and JSON arguments in, JSON out. Arguments
  // that are no object, a key that is unknown and a value of another type are invalid_argument.
  virtual std::string command(const std::string& name, const std::string& arguments) = 0;

  virtual std::string id() const = 0;  // 64 hexadecimal digits
  virtual std::string name() const = 0;
  virtual std::vector<std::string> endpoints() const = 0;       // control, as advertised
  virtual std::vector<std::string> join_endpoints() const = 0;  // for `gpunode join`

  // "http://127.0.0.1:9464/metrics"; empty: metrics are not served.
  virtual std::string metrics_endpoint() const = 0;

  // "http://127.0.0.1:8000/v1"; empty: inference over HTTP is not offered.
  virtual std::string http_endpoint() const = 0;

  // Says goodbye to the cluster and stops; running jobs go on without this node. What its handlers
  // have been asked is answered first. Both wait for handlers that run, ten seconds at most, but not
  // for the one that calls them.
  virtual void leave() = 0;
  // Stops without a word, as a crash would, but with everything closed. After either, the state
  // directory is free for another node, and everything that is asked of this one fails with cancelled.
  virtual void stop() = 0;
  // Blocks until leave or stop has ended, whoever asked for it.
  virtual void wait() = 0;
  // Why the node ended by itself; empty when somebody asked for it, or while it runs.
  virtual std::string failure() = 0;
};

}  // namespace gpunode
