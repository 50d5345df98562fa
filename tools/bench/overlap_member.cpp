#include "tools/bench/overlap_member.hpp"

#include <map>

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
    if (current_ && current_->committed() && committed_number_ != number_) {
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
    collective::ExactExchange::Options chosen;
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
      early_.push_back({from, exchange, message});
    else if (exchange == number_)
      current_->on_message(clock_.now(), from, message, sends);
    send(exchange, sends);
  });
}

void OverlapMember::add_range(const compute::SumRange& range) {
  post([this, range] {
    std::vector<collective::SendTo> sends;
    current_->on_partial_range(clock_.now(), range.node, range.sum, range.fed, range.first,
                               range.count, sends);
    send(number_, sends);
  });
}

SharedFloats OverlapMember::await_commit() {
  std::unique_lock lock(mutex_);
  committed_changed_.wait(lock, [this] { return committed_number_ == begun_; });
  return committed_;
}

Result<StepTimes> OverlapMember::compute(const std::function<void(compute::SumRange)>& tell,
                                         Time begin) {
  compute::Trainer& trainer = *options_.trainer;
  StepTimes times;
  std::mutex mutex;  // ranges come from any lane
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

Result<void> OverlapMember::update(const std::vector<float>& total, StepTimes& times) {
  auto applied = options_.trainer->apply(options_.trainer->step() + 1, total);
  if (!applied) return applied.error();
  times.optimizing = seconds(applied->optimizing);
  times.loading = seconds(applied->loading);
  times.digesting = seconds(applied->digesting);
  return {};
}

Result<StepTimes> OverlapMember::compute_step() {
  const Time begin = clock_.now();
  auto times = compute({}, begin);
  if (!times) return times;
  if (auto done = update(*sums_.front().sum, *times); !done) return done.error();
  times->step = seconds(clock_.now() - begin);
  return times;
}

Result<StepTimes> OverlapMember::exchange_step(bool ranges) {
  const Time begin = clock_.now();
  begin_exchange();
  auto times = ranges ? compute([this](const compute::SumRange& range) { add_range(range); }, begin)
                      : compute({}, begin);
  if (!times) return times;
  if (!ranges)
    for (const compute::SumRange& sum : sums_) add_range(sum);
  const SharedFloats total = await_commit();
  times->commit = seconds(clock_.now() - begin);
  if (auto done = update(*total, *times); !done) return done.error();
  times->step = seconds(clock_.now() - begin);
  return times;
}

double OverlapMember::exchange_again() {
  const Time begin = clock_.now();
  begin_exchange();
  for (const compute::SumRange& sum : sums_) add_range(sum);
  await_commit();
  return seconds(clock_.now() - begin);
}

}  // namespace gpunode::bench
