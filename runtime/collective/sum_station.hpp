// What one member does with the chunks of one owner on their way: which sums it takes in, what it
// makes of them, and whom it sends that to. Worked out once a step from route and plan; all members
// derive each other's parts alike, so a sum that does not belong to a station is told at once.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/collective/exchange_message.hpp"
#include "runtime/collective/slice_plan.hpp"
#include "runtime/collective/sum_program.hpp"
#include "runtime/collective/sum_route.hpp"
#include "runtime/collective/tree.hpp"

namespace gpunode::collective {

struct SumStation {
  struct Input {
    std::uint16_t rank = 0;
    TreeNode node;  // of a route that merges: the root stands for all that the rank has
    std::optional<DataFingerprint> data_fingerprint;  // once one is here; the same in every chunk
  };
  struct Output {
    TreeNode node;
    std::vector<std::uint32_t> inputs;  // places in the station's
    SumProgram program;                 // of these inputs, in that order
  };

  std::uint16_t next = 0;             // the owner's is itself
  std::vector<std::uint16_t> before;  // who sends its sums here, and gets the result from here
  std::vector<Input> inputs;          // own partial sums and others', by rank and node
  std::vector<Output> outputs;        // the owner's only one is the root

  // Own partial sums go on to `next` under their own names, and nothing else does.
  bool passes() const { return outputs.empty(); }
  // Nothing for what is not awaited of that rank.
  std::optional<std::uint32_t> input_of(std::uint16_t rank, TreeNode node) const;

  // The part of `rank` for each owner. `route` null: everybody sends to the owner. The plan fits
  // the tree and the member count.
  static std::vector<SumStation> of(const SumRoute* route, const Tree& tree, const SlicePlan& plan,
                                    std::uint16_t member_count, std::uint16_t rank);
};

// What a member sends and receives in a step, in gradients: the mean over the owners of chunks, which
// take turns.
struct Traffic {
  double sent = 0, received = 0;
};
Traffic traffic_of(const SumRoute* route, const Tree& tree, const SlicePlan& plan,
                   std::uint16_t member_count, std::uint16_t rank);

}  // namespace gpunode::collective
