// Messages of a step that came before their time: for a step that is not begun here yet, or of a
// view that is not installed here yet, as a view reaches its members one after the other and bulk
// is faster than control. Bounded; beyond that NEED fetches them again. Owned by a StepRunner.
#pragma once

#include <utility>
#include <vector>

#include "runtime/base/ids.hpp"
#include "runtime/job/job_message.hpp"

namespace gpunode::job {

class EarlySteps {
 public:
  using List = std::vector<std::pair<NodeId, StepMessage>>;

  explicit EarlySteps(std::uint64_t most_bytes) : most_bytes_(most_bytes) {}

  void keep(const NodeId& from, const StepMessage& message);  // of this view
  void keep_early(const view::ViewName& view, const NodeId& from, const StepMessage& message);
  // What was kept of it is of this view now; the rest is void.
  void on_view(const view::ViewName& view);
  List take();

 private:
  struct Kept {
    List list;
    std::uint64_t bytes = 0;
  };
  void keep_in(Kept& kept, const NodeId& from, const StepMessage& message) const;

  std::uint64_t most_bytes_;
  Kept now_;
  Kept early_;
  view::ViewName early_view_;
};

// Bytes of gradient in a message.
std::size_t payload_bytes(const collective::ExchangeMessage& message);

}  // namespace gpunode::job
