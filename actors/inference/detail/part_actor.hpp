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
};

// The parts that this node has, by what heads call them. Thread-safe.
class PartShelf {
 public:
  void put(const PartName& name, const caf::actor& part);
  void take(const caf::actor& part);
  // The handler of kPartCall. Fails with: corrupted, not_found (this node has no such part), and what
  // ServedPart::answer() fails with.
  static CallHandler answers(std::shared_ptr<PartShelf> shelf);

 private:
  caf::actor find(const PartName& name) const;

  mutable std::mutex mutex_;
  std::multimap<PartName, caf::actor> parts_;
};

// `name`: as it is served.
caf::actor spawn_part(caf::actor_system& system, const caf::actor& owner, const std::string& name);

}  // namespace gpunode::inference
