// HistoryId: which history of states a state, a result or a checkpoint belongs to. A job begins
// with one, and with another one whenever it goes back to a checkpoint, or whenever a part of it
// goes on without a quorum. Within one history every step has exactly one state, so step and
// history together name a state, whatever views have come and gone.
#pragma once

#include <compare>
#include <cstdint>

namespace gpunode {

struct HistoryId {
  std::uint32_t turn = 0;  // histories that were left behind on the way to this one
  std::uint64_t mark = 0;  // tells apart those of parts that knew nothing of each other
  auto operator<=>(const HistoryId&) const = default;
};

}  // namespace gpunode
