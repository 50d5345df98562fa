// ExchangeDriver: one member's part in a row of all-reduces, as the benchmark drives it. The one
// class to replace when the product's own path changes: everything else here (processes, links,
// reference, clock) stays as it is.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/ids.hpp"
#include "runtime/base/result.hpp"
#include "runtime/collective/all_reduce.hpp"
#include "runtime/job/exchange_mode.hpp"
#include "runtime/transport/link.hpp"

namespace gpunode::bench {

// The members of one view and what they agreed on; alike at all but for `rank`.
struct DriverOptions {
  std::uint16_t rank = 0;
  std::vector<NodeId> members;                             // by rank
  collective::Tree tree = collective::Tree::of_slices(1);  // each member's share is one node of it
  collective::AddFn add;
  job::ExchangeMode mode = job::ExchangeMode::exact;
  std::uint64_t site = 0;                              // of the rank, see collective::StepTimes
  std::shared_ptr<const collective::WireForms> forms;  // of the mode
  transport::Link* link = nullptr;                     // open to all members; outlives the driver
};

class ExchangeDriver {
 public:
  virtual ~ExchangeDriver() = default;

  // Called by the link, on its threads.
  virtual void on_message(const NodeId& from, transport::Lane lane, transport::Message message) = 0;
  virtual void on_state(const NodeId& peer, transport::Lane lane, LinkState state) = 0;
  virtual WritableBytes place_of(const NodeId& from, const transport::MessageHead& head) = 0;

  // Before the first sum of vectors of this length, at every member in the same order; no sum is
  // under way anywhere. Gives the node of the tree whose partial sums this member brings. Fails
  // with: timeout.
  virtual Result<collective::TreeNode> start(const DriverOptions& options,
                                             std::uint64_t element_count) = 0;
  // Lets go of everything of that length.
  virtual void stop() = 0;
  // What lies between two sums in a job and is no part of the exchange: the state is updated, the
  // next partial is asked for. Not timed. Fails with: timeout.
  virtual Result<void> next() = 0;
  // Sums the members' partials. Returns when every member is known to hold the same result: DONE
  // and digest of all are here. Fails with: timeout, corrupted (the members disagree).
  virtual Result<collective::SharedFloats> sum(collective::SharedFloats partial) = 0;
};

// The product's own path: the job actor of actors/job, run on the link's bulk thread as
// actors/node runs it, between a trainer that has its partial sum at once and the link.
std::unique_ptr<ExchangeDriver> make_job_driver();
// runtime/collective's AllReduce with runtime/job's messages, fed by one thread: what remains
// without actors, views and votes.
std::unique_ptr<ExchangeDriver> make_bare_driver();

}  // namespace gpunode::bench
