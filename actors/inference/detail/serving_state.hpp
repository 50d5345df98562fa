// What the serving actor knows of its models, and how one comes, is replaced and goes. A model is loaded
// beside the one that it replaces and answers a probe before calls go to it; the one before answers what
// it was asked and ends. Its actor's thread alone.
#pragma once

#include <caf/actor_addr.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <stop_token>
#include <string>

#include "actors/inference/detail/copy_shelf.hpp"
#include "actors/inference/detail/model_actor.hpp"
#include "actors/inference/detail/model_book.hpp"
#include "actors/inference/detail/part_actor.hpp"
#include "actors/inference/serving_actor.hpp"
#include "runtime/snapshot/checkpoint_store.hpp"

namespace gpunode::inference::detail {

using Answer = std::function<void(std::string)>;

// On its way.
struct Loading {
  ModelSource source;
  std::uint64_t steps = 0;  // of a job, its last one; 0: not known
  // Of an earlier start: an older checkpoint does as well, as somebody counts on an answer.
  bool taken_up = false;
  // Must be of this digest, where there is one; and gets a new number all the same.
  std::string digest = {};
  bool anew = false;
  bool draft_may_lack = false;  // nobody waits who could name another draft
  Answer answer = {};           // of the `serve` that waits for it
  bool replace = false;         // what answers under the name
  int looks = 0;  // so often it is waited for news of a copy that nobody seems to serve

  caf::actor actor = {};
  std::string pulse = {};  // its name among the node's pulses
  std::optional<snapshot::CheckpointKey> key = {};
  compute::NodeDevice* device = nullptr;
  std::stop_source stop = {};
};
struct Again {  // to itself: what waited for news, of the directory or of the job board
  std::string name;
  Loading loading;
};
// Answers.
struct Serving {
  ModelSource source;
  ModelVersion version;
  caf::actor actor;
  std::string pulse;
  std::shared_ptr<RowDesk> desk;  // of its rows
  nlohmann::json told;            // of it, to the others
};
inline Replica replica_of(const Serving& serving) {
  return {serving.actor, serving.pulse, serving.desk};
}
// A call that came while the model was asleep, on its way to it.
struct WakeCall {
  std::string name;
  NodeId from;
  SharedBytes request;
  CallReply reply;
};
struct Model {
  std::optional<Loading> next;
  std::optional<Serving> now;
  // Nobody had asked it for long: its memory is free, and the next call loads it; it has no actor.
  std::optional<Serving> asleep;
  std::deque<WakeCall> calls;  // that wait for it
  Answer unserved = {};        // of the `unserve` that waits for its end
};

struct State {
  static inline const char* name = "serving";
  ServingOptions options;
  std::map<std::string, Model> models;
  std::shared_ptr<TextStreams> streams = std::make_shared<TextStreams>();
  std::shared_ptr<CopyShelf> shelf = std::make_shared<CopyShelf>();
  std::shared_ptr<PartShelf> parts = std::make_shared<PartShelf>();
  // By name what is served, and what it replaced ("before"), for the next start.
  nlohmann::json kept = nlohmann::json::object();
  // Of each model that was ever seen, also on the disk, and the last snapshot that was looked through for them.
  std::map<std::string, ModelVersion> newest = {};
  std::shared_ptr<const ClusterSnapshot> noted = {};
  std::map<caf::actor_addr, std::string> drained;  // replaced or withdrawn, not ended yet
  // Of copies: when a version that could not be had is tried again, and after how long next.
  struct Retry {
    Time at{};
    Duration wait{};
  };
  std::map<std::string, Retry> retries;
  std::uint64_t loads = 0;
  std::optional<Leave> leaving;  // nothing is served any more; told once all is answered
};
using Self = caf::stateful_actor<State>;

// Of what nobody waits for: the log tells why it failed, between the two.
Answer warn_if_failed(std::string what, std::string remedy = {});
// Loads it, beside what answers under the name; its answer is told when it is ready, or cannot be.
void begin(Self* self, const std::string& name, Loading loading);
void on_loaded(Self* self, const Loaded& loaded);
// A model's thread has ended; one that should not have is withdrawn, so that calls go to other replicas.
void on_down(Self* self, const caf::down_msg& down);
// No more calls go to it; it answers what it was asked, and ends.
void withdraw(Self* self, const std::string& name);
// One that is not loaded yet is given up, for that reason.
void give_up(Self* self, const std::string& name, const Error& why);
// Its memory is given back until somebody calls it.
void fall_asleep(Self* self, const IsIdle& idle);
void wake(Self* self, WakeCall call);
// All of them go, until the next start of the node.
void leave(Self* self, const Leave& order);
// Those that are copies of what others serve become what others serve now.
void follow(Self* self);
// It is served now; what it replaces, if that is another version, is what a rollback goes back to.
void keep(Self* self, const std::string& name, const Serving& serving);
// The newest versions that are known of models: what a new content's number comes behind.
void note_version(Self* self, const std::string& name, const ModelVersion& version);
void note_versions(Self* self);  // as the directory has them
// What is served, or was and could not be taken up, for the next start of the node.
void remember(Self* self);
// As before the node was started again.
void take_up(Self* self);

}  // namespace gpunode::inference::detail
