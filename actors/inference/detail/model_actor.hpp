// One served model on a thread of its own: loads it, continues texts with it, all of them together, and
// moves from a device that is drained to another one once those under way are told. Drained itself, it ends
// once it has answered what it was asked. Spawned and told by serving_actor.cpp alone.
#pragma once

#include <caf/actor.hpp>
#include <caf/actor_addr.hpp>
#include <caf/fwd.hpp>

#include <functional>
#include <string>

#include "actors/inference/generate_codec.hpp"
#include "actors/inference/infer_codec.hpp"
#include "actors/inference/model_pulse.hpp"
#include "actors/inference/piece_teller.hpp"
#include "actors/inference/row_desk.hpp"
#include "actors/inference/served_model.hpp"
#include "actors/messages.hpp"
#include "runtime/telemetry/registry.hpp"

namespace gpunode::inference {

struct Load {  // to a model actor
  ServedModel::Options options;
  std::function<Result<compute::NodeDevice*>()> choose_device;  // where that one is drained
};
struct Loaded {  // its answer
  std::string name;
  caf::actor_addr from;
  Result<ModelFacts> facts{ModelFacts{}};
  ModelBytes bytes = {};
  std::shared_ptr<RowDesk> desk = {};  // where its rows are asked for; not open: it reads none
};
// To its owner: its weights are elsewhere now.
struct MovedBytes {
  caf::actor model;
  std::string digest;
  ModelBytes bytes;
};
// To its owner: nobody has asked it anything for as long as it may stay so.
struct IsIdle {
  caf::actor_addr model;
};
// To it: the version that it is of, before anybody asks it; to one with a desk of rows the desk is told.
struct SetVersion {
  std::uint64_t number = 0;
};
// No more is asked of it: it ends once all is answered, and at that time in any case.
struct Drain {
  Time until{};
};
// A piece of its image, where that is on a device.
struct ReadPiece {
  std::size_t piece = 0;
  CallReply reply;
};
struct Generate {
  GenerateRequest request;
  NodeId from;  // who asks
  Time deadline{};
  CallReply reply;
  PieceTeller::Send send_piece = {};  // empty: none are wanted
};

struct Infer {
  InferMessage request;  // InferRequest, InferDescribe
  Time deadline{};
  CallReply reply;
};

struct ModelActorOptions {
  caf::actor owner;
  std::string name;
  telemetry::Registry* metrics = nullptr;  // outlives it
  const Clock* clock = nullptr;            // likewise
  std::shared_ptr<ModelPulses> pulses;
  Duration idle{};         // after which it says so; 0: never
  std::string pulse = {};  // its name among the pulses; empty: the model's
};
// Where a served model's requests go.
struct Replica {
  caf::actor model;
  std::string pulse;              // its name among the pulses
  std::shared_ptr<RowDesk> desk;  // of its rows
};

// As a call's reply.
RowDesk::Done told_by(CallReply reply);

// It answers `owner` with Loaded, and each Generate and Infer by its reply.
caf::actor spawn_model(caf::actor_system& system, ModelActorOptions options);

}  // namespace gpunode::inference
