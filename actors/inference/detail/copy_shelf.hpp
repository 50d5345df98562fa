// What this node serves, as others may take it to serve it too: looked up by the model's digest, on the
// thread that brings the question. Thread-safe.
#pragma once

#include <caf/actor.hpp>

#include <map>
#include <memory>
#include <mutex>

#include "actors/inference/served_model.hpp"
#include "actors/messages.hpp"

namespace gpunode::inference {

// By which nodes ask each other for it.
inline constexpr const char* kCopyCall = "model.copy";

class CopyShelf {
 public:
  // `model`: its actor, which is asked for what lies on a device.
  void put(const std::string& digest, ModelBytes bytes, const caf::actor& model);
  // Of that actor's.
  void take(const caf::actor& model);
  // The handler of kCopyCall. Fails with: corrupted, not_found (this node does not serve the digest),
  // invalid_argument (no such piece), device_lost.
  static CallHandler answers(std::shared_ptr<CopyShelf> shelf);

 private:
  struct Place {
    ModelBytes bytes;
    caf::actor model;
  };
  std::optional<Place> find(const std::string& digest) const;

  mutable std::mutex mutex_;
  std::multimap<std::string, Place> places_;
};

}  // namespace gpunode::inference
