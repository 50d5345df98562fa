#include "tests/parity/hostile/exchange_course.hpp"

#include <deque>
#include <mutex>

#include "actors/compute/wire_forms.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "runtime/collective/all_reduce.hpp"

namespace gpunode::compute {
namespace {

using collective::SendTo;

class Exchange {
 public:
  Exchange(TrainingCourse& course, const std::vector<Member>& members)
      : course_(course), members_(members) {}

  Result<void> open() {
    auto forms = wire_forms_of(*host_, course_.spec.exchange);
    if (!forms) return forms.error();
    for (const Member& member : members_) {
      auto made = course_.open_trainer(member.devices, member.how.workers);
      if (!made) return made.error();
      trainers_.push_back(*std::move(made));
      forms_.push_back(collective::chunk_form_of(*forms));
    }
    return {};
  }

  // The state that all have after it.
  Result<Digest> step(std::uint64_t step) {
    open_rounds();
    for (std::uint16_t rank = 0; rank < members_.size(); ++rank)
      if (auto done = compute(rank, step); !done) return done.error();
    deliver();
    std::vector<Digest> states;
    for (std::uint16_t rank = 0; rank < members_.size(); ++rank) {
      if (!rounds_[rank].committed()) return Error{ErrorCode::internal, "a step does not commit"};
      if (members_[rank].how.speculates)
        if (auto done = course_.speculate(*trainers_[rank], rounds_[rank].result()); !done)
          return done.error();
      const auto report = trainers_[rank]->apply(step, rounds_[rank].result());
      if (!report) return report.error();
      if (forms_[rank]) forms_[rank]->on_commit();
      states.push_back(report->state);
      if (states.back() != states.front())
        return Error{ErrorCode::internal, "members have different states"};
    }
    return states.front();
  }

 private:
  void open_rounds() {
    rounds_.clear();
    const collective::Tree& tree = trainers_.front()->tree();
    for (std::uint16_t rank = 0; rank < members_.size(); ++rank) {
      collective::AllReduce::Options options;
      options.rank = rank;
      options.member_count = static_cast<std::uint16_t>(members_.size());
      options.tree = tree;
      options.plan = collective::balanced_plan(tree, options.member_count);
      options.layout = collective::ChunkLayout::of(trainers_[rank]->element_count());
      options.add = add_;
      options.form = forms_[rank];
      rounds_.emplace_back(std::move(options), Time{});
    }
  }

  Result<void> compute(std::uint16_t rank, std::uint64_t step) {
    Trainer& trainer = *trainers_[rank];
    trainer.want(step, rounds_[rank].own_cover());
    std::vector<SendTo> out;
    std::mutex mutex;
    Result<void> reading;
    const auto tell = [&](const SumRange& range) {
      std::lock_guard lock(mutex);
      const auto part = std::span(*range.sum).subspan(range.first, range.count);
      auto done = TrainingCourse::host_reads(members_[rank].devices, std::as_bytes(part));
      if (!done) reading = done;
      rounds_[rank].on_partial_range({}, range.node, range.sum, range.data_fingerprint, range.first,
                                     range.count, out);
    };
    while (!trainer.idle())
      if (auto done = trainer.compute_some(tell); !done) return done;
    for (SendTo& send : out) wire_.emplace_back(rank, std::move(send));
    return reading;
  }

  void deliver() {
    while (!wire_.empty()) {
      const auto [from, send] = std::move(wire_.front());
      wire_.pop_front();
      std::vector<SendTo> out;
      rounds_[send.rank].on_message({}, from, send.message, out);
      for (SendTo& next : out) wire_.emplace_back(send.rank, std::move(next));
    }
  }

  TrainingCourse& course_;
  const std::vector<Member>& members_;
  const std::unique_ptr<ops::Backend> host_ = cpu::open_backend();
  const collective::AddFn add_ = add_of(*host_);
  std::vector<std::shared_ptr<collective::ChunkForm>> forms_;  // by rank, as all of these
  std::vector<std::unique_ptr<Trainer>> trainers_;
  std::vector<collective::AllReduce> rounds_;
  std::deque<std::pair<std::uint16_t, SendTo>> wire_;  // by whom, and what
};

}  // namespace

Result<std::vector<Digest>> exchange(TrainingCourse& course, const std::vector<Member>& members) {
  Exchange exchange(course, members);
  if (auto done = exchange.open(); !done) return done.error();
  std::vector<Digest> states;
  for (std::uint64_t step = 1; step <= TrainingCourse::kSteps; ++step) {
    auto state = exchange.step(step);
    if (!state) return state.error();
    states.push_back(*state);
  }
  return states;
}

}  // namespace gpunode::compute
