// The models of one node: loads what `serve` names, publishes it so that every node can call
// "model/<name>", and passes `generate` to a live replica, wherever that is. Each model has
// a thread of its own (a detached actor), so that a long text never holds up the node. A model whose
// device is drained moves to another one between two texts; where it cannot, it stays. A new version is
// loaded and probed beside the one that answers, and then takes its place; a copy of what other nodes serve
// is taken from all of them at once and follows them to newer versions.
#pragma once

#include <caf/actor.hpp>
#include <caf/fwd.hpp>

#include "actors/cluster_state.hpp"
#include "actors/compute/device_roster.hpp"
#include "actors/inference/infer_codec.hpp"
#include "actors/inference/model_pulse.hpp"
#include "actors/inference/text_streams.hpp"
#include "actors/messages.hpp"
#include "kernels/model/model.hpp"
#include "runtime/storage/file_system.hpp"
#include "runtime/telemetry/registry.hpp"

namespace gpunode::inference {

struct ServingOptions {
  // For a model that is to be loaded. From any thread.
  std::function<Result<compute::NodeDevice*>()> choose_device;
  storage::FileSystem* files = nullptr;
  const Clock* clock = nullptr;
  const ClusterState* cluster = nullptr;
  storage::Path checkpoints;  // <state>/checkpoints
  caf::actor calls;
  caf::actor job_board;         // knows which job a name means
  caf::actor directory_writer;  // SetEntry
  telemetry::Registry* metrics = nullptr;
  storage::Path remembered = {};  // a file with what is served, also after a restart; empty: none
  storage::Path copies = {};      // a folder of models that were taken from other nodes, by digest
  std::shared_ptr<ModelPulses> pulses = std::make_shared<ModelPulses>();
};

// To the serving actor: have a text continued by whoever serves the model.
struct GenerateText {
  std::string model;
  GenerateRequest request;
  // What comes before the end, and whether more is wanted; on any thread, must be quick. Empty: all
  // at the end.
  TextStreams::Taker on_piece = {};
  bool is_shown = true;  // the pieces are; else on_piece says alone whether more is wanted
  // Once, on any thread; must be quick. Behind all pieces, which make up its text.
  std::function<void(Result<GenerateAnswer>)> done = {};
};

// Have named tensors answered by whoever serves the model, or have it say what it reads and answers.
struct InferOrder {
  std::string model;
  InferMessage request;  // InferRequest, InferDescribe
  std::chrono::milliseconds timeout{};
  // Once, on any thread; must be quick.
  std::function<void(Result<InferMessage>)> done = {};
};

// Has a live replica carry it out, by `call`, which may answer before it returns: a model of this node does
// in less time than waking an actor takes.
void order_infer(const ClusterState& state, const std::function<void(CallRequest)>& call,
                 InferOrder order);

// The names of the models that live nodes serve, each once.
std::vector<std::string> served_models(const ClusterSnapshot& cluster);
// Whether the model is served, and all who serve it gave its memory back until somebody asks.
bool sleeps(const ClusterSnapshot& cluster, const std::string& model);

caf::actor spawn_serving(caf::actor_system& system, ServingOptions options);

}  // namespace gpunode::inference
