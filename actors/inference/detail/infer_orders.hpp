// How named tensors are asked for, and answered, over the mesh: a call to "model/<name>" of whoever serves
// it, as texts are (text_orders.hpp), told apart by the payload's identifier.
#pragma once

#include <caf/actor.hpp>

#include "actors/inference/detail/model_actor.hpp"
#include "actors/inference/serving_actor.hpp"
#include "actors/messages.hpp"

namespace gpunode::inference {

// What a program asks before it asks the model itself: {"platform", "inputs": [{"name", "shape"}]}.
InferOrder describe_order_of(const Command& command);
// What came from any node, to the desk of the model's rows or to its thread; or answered at once where it is
// known: whether the model computes.
struct PassedInfer {
  const NodeId& from;
  ByteView request;
  CallReply reply;
};
void pass_infer(const Replica& to, const ServingOptions& options, PassedInfer passed);

}  // namespace gpunode::inference
