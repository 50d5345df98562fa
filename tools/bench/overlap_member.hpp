// A member of a job as the overlap benchmark plays it: the product's Trainer on one thread, the
// product's AllReduce on another, and nothing of views, actors and disks.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "actors/compute/trainer.hpp"
#include "runtime/collective/slice_plan.hpp"
#include "tools/bench/paced_wire.hpp"

namespace gpunode::bench {

struct MemberOptions {
  std::uint16_t rank = 0;
  std::uint16_t member_count = 1;
  collective::SlicePlan plan;
  PacedWire* wire = nullptr;
  compute::Trainer* trainer = nullptr;
  collective::AddFn add;
};

// What a step took, in seconds from its beginning.
struct StepTimes {
  double first_range = 0;                             // the first part of the gradient was final
  double gradient = 0;                                // the last part
  double step = 0;                                    // the update was applied
  double optimizing = 0, loading = 0, digesting = 0;  // parts of the update
};

class OverlapMember {
 public:
  explicit OverlapMember(MemberOptions options);
  ~OverlapMember();

  // Alone: computes its sums and applies them as if they were the total. For the compute time.
  Result<StepTimes> compute_step();
  // The same, where all but the last chunk of the total is speculated, and the step after it, up to
  // its first range: seconds from the last chunk on, in which the wire has nothing to carry.
  Result<double> gap_step();
  // With the others, sums at the end.
  Result<StepTimes> exchange_apart();
  // With the others, parts leave as soon as they are final; `ahead`: what comes back is speculated.
  // Seconds a step, from the end of the first one to the end of the last.
  Result<double> exchange_steps(int count, bool ahead);
  // Of the last step, before clipping.
  double gradient_norm() const { return gradient_norm_; }
  // The exchange of the last step's sums once more, without computing; seconds.
  double exchange_again();

  void arrived(std::uint16_t from, std::uint64_t exchange,
               const collective::ExchangeMessage& message);

 private:
  using Job = std::function<void()>;
  void post(Job job);
  void work();
  void begin_exchange();
  void send(std::uint64_t exchange, std::vector<collective::SendTo>& sends);
  void add_range(const compute::SumRange& range);
  Result<collective::SharedFloats> await_commit(bool ahead);
  Result<void> update(const collective::SharedFloats& total, StepTimes& times);
  Result<StepTimes> compute(const std::function<void(compute::SumRange)>& tell, Time begin);

  MemberOptions options_;
  SystemClock clock_;
  collective::ChunkLayout layout_;
  std::vector<compute::SumRange> sums_;  // of the last step, whole
  double gradient_norm_ = 0;
  // On the exchange thread.
  std::uint64_t number_ = 0;  // of the exchange under way
  std::optional<collective::AllReduce> current_;
  struct Early {
    std::uint16_t from = 0;
    collective::ExchangeMessage message;
  };
  std::vector<Early> early_;
  std::mutex mutex_;
  std::condition_variable changed_, committed_changed_;
  std::deque<Job> jobs_;
  std::uint64_t begun_ = 0, committed_number_ = 0;  // exchanges
  collective::SharedFloats committed_;
  collective::AllReduce::Arrived arrived_;  // and not speculated yet
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace gpunode::bench
