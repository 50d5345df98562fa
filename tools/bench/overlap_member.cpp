#include "tools/bench/overlap_member.hpp"

#include <map>
#include <utility>

namespace gpunode::bench {

using collective::SharedFloats;

namespace {

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

OverlapMember::OverlapMember(MemberOptions options)
    : options_(std::move(options)),
      layout_(collective::ChunkLayout::of(options_.trainer->element_count())),
      thread_([this] { work(); }) {}

OverlapMember::~OverlapMember() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void OverlapMember::post(Job job) {
  std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  changed_.notify_one();
}

void OverlapMember::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
    if (stop_) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = nullptr;
    lock.lock();
    if (!current_) continue;
    auto arrived = current_->take_arrived();
    if (!arrived.parts.empty()) {
      arrived_.sum = std::move(arrived.sum);
      arrived_.parts.insert(arrived_.parts.end(), arrived.parts.begin(), arrived.parts.end());
      committed_changed_.notify_all();
    }
    if (current_->committed() && committed_number_ != number_) {
      committed_ = current_->result();
      committed_number_ = number_;
      committed_changed_.notify_all();
    }
  }
}

void OverlapMember::send(std::uint64_t exchange, std::vector<collective::SendTo>& sends) {
  for (collective::SendTo& one : sends)
    options_.wire->send(options_.rank, exchange, std::move(one));
  sends.clear();
}

void OverlapMember::begin_exchange() {
  ++begun_;
  post([this] {
    ++number_;
    collective::AllReduce::Options chosen;
    chosen.rank = options_.rank;
    chosen.member_count = options_.member_count;
    chosen.tree = options_.trainer->tree();
    chosen.plan = options_.plan;
    chosen.layout = layout_;
    chosen.add = options_.add;
    current_.emplace(std::move(chosen), clock_.now());
    std::vector<Early> early;
    early.swap(early_);
    std::vector<collective::SendTo> sends;
    for (const Early& one : early) current_->on_message(clock_.now(), one.from, one.message, sends);
    send(number_, sends);
  });
}

void OverlapMember::arrived(std::uint16_t from, std::uint64_t exchange,
                            const collective::ExchangeMessage& message) {
  post([=, this] {
    std::vector<collective::SendTo> sends;
    if (exchange > number_)
      early_.push_back({from, message});
    else if (exchange == number_)
      current_->on_message(clock_.now(), from, message, sends);
    send(exchange, sends);
  });
}

void OverlapMember::add_range(const compute::SumRange& range) {
  post([this, range] {
    std::vector<collective::SendTo> sends;
    current_->on_partial_range(clock_.now(), range.node, range.sum, range.data_fingerprint,
                               range.first, range.count, sends);
    send(number_, sends);
  });
}

// Speculates meanwhile what is here, if wished.
Result<SharedFloats> OverlapMember::await_commit(bool ahead) {
  std::unique_lock lock(mutex_);
  for (;;) {
    committed_changed_.wait(
        lock, [&] { return committed_number_ == begun_ || (ahead && !arrived_.parts.empty()); });
    const auto arrived = std::exchange(arrived_, {});
    const bool committed = committed_number_ == begun_;
    if (ahead) {
      lock.unlock();
      for (const collective::Elements& part : arrived.parts) {
        auto done = options_.trainer->update_speculatively(options_.trainer->step() + 1,
                                                           arrived.sum, part.first, part.count);
        if (!done) return done.error();
      }
      lock.lock();
    }
    if (committed) return committed_;
  }
}

Result<StepTimes> OverlapMember::compute(const std::function<void(compute::SumRange)>& tell,
                                         Time begin) {
  compute::Trainer& trainer = *options_.trainer;
  StepTimes times;
  std::mutex mutex;  // ranges come from any worker
  std::map<collective::TreeNode, compute::SumRange> sums;
  trainer.want(trainer.step() + 1, trainer.tree().cover(options_.plan.slices_of(options_.rank)));
  do {
    auto done = trainer.compute_some([&](compute::SumRange range) {
      {
        std::lock_guard lock(mutex);
        if (times.first_range == 0) times.first_range = seconds(clock_.now() - begin);
        sums[range.node] = range;
      }
      if (tell) tell(std::move(range));
    });
    if (!done) return done.error();
  } while (!trainer.idle());
  times.gradient = seconds(clock_.now() - begin);
  sums_.clear();
  for (auto& [node, range] : sums) {
    range.first = 0;
    range.count = layout_.element_count;
    sums_.push_back(range);
  }
  return times;
}

Result<void> OverlapMember::update(const SharedFloats& total, StepTimes& times) {
  auto applied = options_.trainer->apply(options_.trainer->step() + 1, total);
  if (!applied) return applied.error();
  gradient_norm_ = applied->gradient_norm;
  times.optimizing = seconds(applied->optimizing);
  times.loading = seconds(applied->loading);
  times.digesting = seconds(applied->digesting);
  return {};
}

Result<StepTimes> OverlapMember::compute_step() {
  const Time begin = clock_.now();
  auto times = compute({}, begin);
  if (!times) return times;
  if (auto done = update(sums_.front().sum, *times); !done) return done.error();
  times->step = seconds(clock_.now() - begin);
  return times;
}

Result<double> OverlapMember::gap_step() {
  if (auto times = compute({}, clock_.now()); !times) return times.error();
  const SharedFloats total = sums_.front().sum;
  const std::uint64_t step = options_.trainer->step() + 1;
  const std::uint64_t before = layout_.first(layout_.chunk_count() - 1);
  if (auto done = options_.trainer->update_speculatively(step, total, 0, before); !done)
    return done.error();
  const Time begin = clock_.now();
  auto done =
      options_.trainer->update_speculatively(step, total, before, layout_.element_count - before);
  if (!done) return done.error();
  StepTimes unused;
  if (auto updated = update(total, unused); !updated) return updated.error();
  auto times = compute({}, begin);
  if (!times) return times.error();
  if (auto updated = update(sums_.front().sum, unused); !updated) return updated.error();
  return times->first_range;
}

Result<StepTimes> OverlapMember::exchange_apart() {
  const Time begin = clock_.now();
  begin_exchange();
  auto times = compute({}, begin);
  if (!times) return times;
  for (const compute::SumRange& sum : sums_) add_range(sum);
  auto total = await_commit(false);
  if (!total) return total.error();
  if (auto done = update(*total, *times); !done) return done.error();
  times->step = seconds(clock_.now() - begin);
  return times;
}

Result<double> OverlapMember::exchange_steps(int count, bool ahead) {
  Time begin{};
  StepTimes times;
  for (int step = 0; step < count; ++step) {
    begin_exchange();
    auto done = compute([this](const compute::SumRange& range) { add_range(range); }, begin);
    if (!done) return done.error();
    auto total = await_commit(ahead);
    if (!total) return total.error();
    if (auto updated = update(*total, times); !updated) return updated.error();
    if (step == 0) begin = clock_.now();
  }
  return seconds(clock_.now() - begin) / (count - 1);
}

double OverlapMember::exchange_again() {
  const Time begin = clock_.now();
  begin_exchange();
  for (const compute::SumRange& sum : sums_) add_range(sum);
  (void)await_commit(false);
  return seconds(clock_.now() - begin);
}

}  // namespace gpunode::bench
