// Calls between nodes: what one node publishes under a name, every node can call. Finds the live
// replicas of a name in the directory and sends the request to one (replica_choice.hpp), on the caller's thread;
// what comes from the link is taken on the link's thread; no mailbox lies on the way. Requests and
// answers travel as shared buffers, without a copy on the way out.
//
// A call ends exactly once:
//   answered                                        the handler's answer, or its error as it is
//   refused (not run: not offered, full, stopping)  the next replica, those in reserve last; none left:
//                                                   the refusal
//   the node that has it is gone, its session broke peer_lost at once; with `may_repeat` first the
//                                                   next replica
//   nobody offers the name                          looked for again until the timeout: unavailable
//   the timeout is over                             timeout
// So a handler runs at most once for a call, unless that may be repeated. What other nodes call counts
// against their limits until it is answered, and the answer until it has left.
// Owned by the node; any thread. Answers that come after close() are thrown away.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/cluster_state.hpp"
#include "actors/messages.hpp"
#include "actors/node/call_codec.hpp"
#include "actors/node/call_threads.hpp"
#include "actors/node/peer_limits.hpp"
#include "actors/node/replica_choice.hpp"
#include "runtime/security/authority.hpp"
#include "runtime/telemetry/registry.hpp"
#include "runtime/transport/link.hpp"

namespace gpunode::node {

struct CallsOptions {
  NodeId self;
  std::shared_ptr<transport::Link> link;
  const ClusterState* cluster = nullptr;
  const Clock* clock = nullptr;
  std::function<void(SetEntry)> write_entry;  // to the directory
  std::uint64_t seed = 0;
  telemetry::Registry* metrics = nullptr;
  std::shared_ptr<CallThreads> threads;            // of offers that are pooled
  const security::Authority* authority = nullptr;  // says who may call what, and who may offer
  std::shared_ptr<PeerLimits> limits;              // of what others call
};

// Key in the directory under which a published name is listed.
std::string service_key(const std::string& name);
// Whether an embedder may publish it. Fails with invalid_argument.
Result<void> check_published_name(const std::string& name);

class Calls : public std::enable_shared_from_this<Calls> {
 public:
  explicit Calls(CallsOptions options);

  // Fails with resource_exhausted: a listed name too many; cancelled: closed.
  Result<void> publish(const Publish& order);
  // `done` is told once, on any thread, and perhaps before this returns.
  void start(CallRequest request);
  // The same, and waits. Not on a thread of the link: fails with wrong_state there.
  Result<SharedBytes> ask(CallRequest request);
  // Has somebody call on_tick() again and again from now on, until that is false. Before anything is asked;
  // `keep_time` is told on any thread, and must be quick.
  void on_wait(std::function<void()> keep_time) { keep_time_ = std::move(keep_time); }

  // What comes from the link, on its threads, and from the detector.
  void on_message(const NodeId& from, const transport::Message& message);
  void on_peer_gone(const NodeId& peer, bool bulk_alone = false);
  void on_peer_here(const NodeId& peer);
  // Whether calls wait still. Else the next one that waits has on_wait()'s tell.
  bool on_tick();

  // Refuses what others ask from now on; what is asked already goes on.
  void withdraw();
  void close();
  // Whether this thread is taking a message from the link, which may not wait for the link.
  static bool on_link_thread();

 private:
  struct Pending {
    CallRequest request;
    std::optional<NodeId> at;  // who is working on it
    Time sent{};               // when it went there
    // By which it went there; none: that is not known yet.
    std::optional<transport::Lane> lane;
    std::set<NodeId> tried;
    Time deadline{};
    Time retry_at{};                 // when nobody is working on it
    std::optional<Time> refused_at;  // first, and by nothing else since
    Error last{ErrorCode::unavailable, ""};
    bool last_is_final = false;  // where no replica is left
    bool was_sought = false;     // once more, after one was lost
  };
  using Table = std::map<std::uint64_t, Pending>;
  // What is to be told once the lock is released.
  struct Ended {
    std::function<void(Result<SharedBytes>)> done;
    Result<SharedBytes> result;
    void tell() { done(std::move(result)); }
  };

  std::uint64_t enter(CallRequest request);
  void dispatch(std::uint64_t call);
  std::vector<NodeId> replicas(const Pending& pending);
  // Who worked on it does not any more, as it was answered or not.
  void leave(Pending& pending, bool answered);
  Ended finish(Table::iterator it, Result<SharedBytes> result);
  void lose(Table::iterator it, std::vector<Ended>& ended, std::vector<std::uint64_t>& again);
  bool is_lost(const NodeId& peer);
  void look_after(Table::iterator it, const ClusterSnapshot& cluster, std::vector<Ended>& ended,
                  std::vector<std::uint64_t>& again);
  void tick(std::optional<std::uint64_t> only);
  Duration next_look(std::uint64_t call) const;
  void run_handler(const NodeId& from, std::uint64_t call, const CallHeader& header,
                   SharedBytes request);
  void answer(const NodeId& to, std::uint64_t call, Load load, Result<SharedBytes> result,
              bool not_run = false, bool lost = false);
  void on_reply(const NodeId& from, std::uint64_t call, const ReplyHeader& reply,
                SharedBytes payload);
  const CallsOptions options_;
  mutable std::mutex mutex_;  // never held while a handler, an answer or the link is called
  struct Offer {
    CallHandler handler;
    bool pooled = false;
    bool reserve = false;
    bool listed = true;
  };
  std::map<std::string, Offer> offers_;
  Table pending_;
  std::map<std::optional<ErrorCode>, telemetry::Counter*> ended_;  // by outcome
  std::uint64_t next_call_ = 1;
  ReplicaChoice choice_;
  std::map<NodeId, Time> lost_;  // until when it gets no calls
  std::function<void()> keep_time_ = [] {};
  bool timed_ = false;  // somebody keeps the time
  bool withdrawn_ = false;
  bool closed_ = false;  // from here on only what Calls owns itself is there
};

}  // namespace gpunode::node
