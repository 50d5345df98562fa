// One part of a model, on a thread of its own: loads it, and answers the passes of heads, one after the
// other. Spawned and told by serving_actor.cpp alone; answers Load with Loaded.
#pragma once

#include <caf/actor.hpp>
#include <caf/fwd.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "actors/inference/part_codec.hpp"
#include "actors/messages.hpp"

namespace gpunode::inference {

// By which a head asks for the passes of a part.
inline constexpr const char* kPartCall = "model.part";

struct PartOrder {
  NodeId from;
  std::shared_ptr<const PartMessage> asked;
  CallReply reply;
  std::shared_ptr<void> place;  // among what the node waits for
};

// The parts that this node has, by what heads call them. Thread-safe.
class PartShelf {
 public:
  void put(const PartName& name, const caf::actor& part);
  void take(const caf::actor& part);
  // The handler of kPartCall, for the receiving thread: the node's handler threads may all wait for texts, which
  // need passes. Fails with: corrupted, not_found (this node has no such part), resource_exhausted (of the
  // caller too much waits here), and what ServedPart::answer() fails with.
  static CallHandler answers(std::shared_ptr<PartShelf> shelf, caf::actor_system& system);

 private:
  struct Unread;  // a request
  static caf::behavior read(caf::event_based_actor* self, const std::shared_ptr<PartShelf>& shelf);
  void pass_on(Unread& request);
  caf::actor find(const PartName& name) const;
  // Among what the node waits for, until it is let go; null: it waits for as much as it may.
  static std::shared_ptr<void> enter(const std::shared_ptr<PartShelf>& shelf, const NodeId& from);

  mutable std::mutex mutex_;
  std::multimap<PartName, caf::actor> parts_;
  std::map<NodeId, std::size_t> waiting_;
};

// `name`: as it is served.
caf::actor spawn_part(caf::actor_system& system, const caf::actor& owner, const std::string& name);

}  // namespace gpunode::inference
