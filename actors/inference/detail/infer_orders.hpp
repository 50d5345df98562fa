// How named tensors are asked for, and answered, over the mesh: a call to "model/<name>" of whoever serves
// it, as texts are (text_orders.hpp), told apart by the payload's identifier.
#pragma once

#include <caf/actor.hpp>

#include "actors/inference/serving_actor.hpp"
#include "actors/messages.hpp"

namespace gpunode::inference {

// Has a live replica carry it out.
void order_infer(const ServingOptions& options, InferOrder order);
// What a program asks before it asks the model itself: {"platform", "inputs": [{"name", "shape"}]}.
InferOrder describe_order_of(const Command& command);
// What came from any node, to the thread of the model here, or answered at once where it is known: whether
// the model computes.
struct PassedInfer {
  const caf::actor& model;
  const std::string& name;
  const ServingOptions& options;
};
void pass_infer(const PassedInfer& to, ByteView request, CallReply reply);

}  // namespace gpunode::inference
