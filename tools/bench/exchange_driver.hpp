// ExchangeDriver: one member's part in a row of exact sums, as the benchmark drives it. The one
// class to replace when the product's own path changes: everything else here (processes, links,
// reference, clock) stays as it is.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/ids.hpp"
#include "runtime/base/result.hpp"
#include "runtime/collective/exact_exchange.hpp"
#include "runtime/collective/slice_plan.hpp"
#include "runtime/transport/link.hpp"

namespace gpunode::bench {

// The members of one view and what they agreed on; alike at all but for `rank`.
struct DriverOptions {
  std::uint16_t rank = 0;
  std::vector<NodeId> members;  // by rank
  collective::Tree tree = collective::Tree::of_slices(1);
  collective::SlicePlan plan;  // each member's cover is one node
  collective::AddFn add;
  transport::Link* link = nullptr;  // open to all members; outlives the driver
};

class ExchangeDriver {
 public:
  virtual ~ExchangeDriver() = default;

  // Called by the link, on its threads.
  virtual void on_message(const NodeId& from, transport::Lane lane, transport::Message message) = 0;
  virtual void on_state(const NodeId& peer, transport::Lane lane, transport::LinkState state) = 0;

  // Before the first sum and when the length changes; no sum is under way anywhere.
  virtual void start(const DriverOptions& options, std::uint64_t element_count) = 0;
  // Sums the members' partials. Returns when every member is known to hold the same result: DONE
  // and digest of all are here. Fails with: timeout, corrupted (the members disagree).
  virtual Result<collective::SharedFloats> sum(collective::SharedFloats partial) = 0;
};

// runtime/collective's ExactExchange with runtime/job's messages, fed by one thread.
std::unique_ptr<ExchangeDriver> make_exact_driver();

}  // namespace gpunode::bench
