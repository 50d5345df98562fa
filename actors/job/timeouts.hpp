// How long the questions of people may take: the command line waits for its node, and the node for
// others a little less, so that it is the one that knows who did not answer. Pure constants, shared
// by both sides.
#pragma once

#include <chrono>

namespace gpunode::jobs {

// `train`: every node reads all of the job's data before it says whether it is fit.
constexpr auto kTrainTimeout = std::chrono::minutes(15);
constexpr auto kFitnessTimeout = kTrainTimeout - std::chrono::minutes(1);
// `job show` reads all that the job was fed, at whichever node it is answered.
constexpr auto kShowTimeout = std::chrono::minutes(5);
// `job trace` asks every member for its spans, which travel beside the chunks of a step.
constexpr auto kTraceTimeout = std::chrono::seconds(60);
constexpr auto kSpansTimeout = std::chrono::seconds(20);
// stop, resume, recover, and the rest.
constexpr auto kOrderTimeout = std::chrono::seconds(45);
// What the node that was asked gives less to the one that it asks.
constexpr auto kForwardMargin = std::chrono::seconds(5);

}  // namespace gpunode::jobs
