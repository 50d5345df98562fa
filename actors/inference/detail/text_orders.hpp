// How a text is asked for, and answered, over the mesh: the request as a call to "model/<name>" of
// whoever serves it, pieces on the way as calls back to "generate.piece". Told by serving_actor.cpp.
#pragma once

#include <caf/actor.hpp>

#include <memory>
#include <string>

#include "actors/inference/detail/model_actor.hpp"
#include "actors/inference/serving_actor.hpp"
#include "actors/inference/text_streams.hpp"
#include "actors/messages.hpp"

namespace gpunode::inference {

inline constexpr const char* kPieceCall = "generate.piece";
// Whether some node is known to serve it; and what a call to it that failed means, of a model that was
// `known` to be served or not.
bool is_offered(const ClusterSnapshot& cluster, const std::string& model);
Error failure_of(const Error& call, const std::string& model, bool known);
// How long a replica is looked for. Of a model that no node is `known` to serve: a moment for the news of a
// fresh `serve`, no longer; and not where many wait for such news already.
struct PlaceWait {
  Duration longest{};          // zero: as long as the answer may take
  std::shared_ptr<void> held;  // while it waits
};
PlaceWait wait_for_place(bool known);
// Of an answer that is none.
Error no_answer();
// When the answer of a replica must be ready: a request may have `timeout`, but no more than its caller waits
// (less is left of one that another replica had before, or that waited for the model), and is on its way
// back for some of it: a twentieth, and no more than 200 ms.
Time answer_by_of(const CallReply& reply, Time now, std::chrono::milliseconds timeout);

// Has a live replica carry it out.
void order_text(const ServingOptions& options, const std::shared_ptr<TextStreams>& streams,
                GenerateText order);
// What leads to a replica that knows the beginning of the text already, its prompt's or its chat's.
std::uint64_t affinity_of(const GenerateRequest& request);
// A person's `generate`. With "tell_first" the answer also has how long before it the text's first piece
// came, "after_first_seconds"; a text without pieces, as rows are answered, has none.
GenerateText text_order_of(const Command& command, const Clock& clock);

// What this node answers to `generate` from any node: the model's thread does the work.
CallHandler answer_by(Replica replica, const ServingOptions& options);
// And to the pieces of what it has asked for itself.
CallHandler answer_pieces(std::shared_ptr<TextStreams> streams);

}  // namespace gpunode::inference
