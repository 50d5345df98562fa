#include "tools/bench/load_run.hpp"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "runtime/base/rng.hpp"

namespace gpunode::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

double seconds_since(SteadyClock::time_point begin) {
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

// What the askers share.
class Load {
 public:
  Load(const LoadPlan& plan, const Ask& ask) : plan_(plan), ask_(ask) {}

  LoadResult run() {
    std::vector<std::jthread> askers;
    for (int i = 0; i < plan_.askers; ++i) askers.emplace_back([this] { work(); });
    for (std::unique_lock lock(mutex_); through_ < plan_.askers;) {
      if (over_.wait_for(lock, std::chrono::seconds(1), [&] { return through_ == plan_.askers; }))
        break;
      const std::uint64_t done = result_.asked();
      lock.unlock();
      if (plan_.on_second) plan_.on_second(done);
      lock.lock();
    }
    askers.clear();
    return std::move(result_);
  }

 private:
  // The next one's number, and when it is due; false: there is none.
  bool take(std::uint64_t& number, double& due) {
    std::lock_guard lock(mutex_);
    number = taken_++;
    if (plan_.due.empty()) {
      due = seconds_since(begin_);
      return due < plan_.seconds;
    }
    if (number >= plan_.due.size()) return false;
    due = plan_.due[number];
    return true;
  }

  void work() {
    std::uint64_t number = 0;
    for (double due = 0; take(number, due);) {
      std::this_thread::sleep_until(begin_ + std::chrono::duration_cast<SteadyClock::duration>(
                                                 std::chrono::duration<double>(due)));
      const double late = std::max(0.0, seconds_since(begin_) - due);
      auto told = ask_(plan_.first_number + number);
      const double end = seconds_since(begin_);
      std::lock_guard lock(mutex_);
      result_.seconds = std::max(result_.seconds, end);
      if (!told) {
        ++result_.failed[std::string(to_string(told.error().code))];
        continue;
      }
      told->seconds += late;
      if (told->first_seconds > 0) told->first_seconds += late;
      told->late_seconds = late;
      result_.answered.push_back(*told);
    }
    std::lock_guard lock(mutex_);
    if (++through_ == plan_.askers) over_.notify_all();
  }

  const LoadPlan& plan_;
  const Ask& ask_;
  const SteadyClock::time_point begin_ = SteadyClock::now();
  std::mutex mutex_;
  std::condition_variable over_;
  std::uint64_t taken_ = 0;
  int through_ = 0;  // askers
  LoadResult result_;
};

}  // namespace

std::uint64_t LoadResult::asked() const {
  std::uint64_t count = answered.size();
  for (const auto& [code, failures] : failed) count += failures;
  return count;
}

double LoadResult::answered_per_second() const {
  return seconds > 0 ? static_cast<double>(answered.size()) / seconds : 0;
}

std::vector<double> arrivals(double rate, double seconds, std::uint64_t seed) {
  Rng random(seed);
  std::vector<double> due;
  for (double at = 0;;) {
    at -= std::log1p(-random.uniform()) / rate;
    if (at >= seconds) return due;
    due.push_back(at);
  }
}

LoadResult run_load(const LoadPlan& plan, const Ask& ask) {
  return Load(plan, ask).run();
}

double percentile(std::vector<double> values, double percent) {
  if (values.empty()) return 0;
  const auto rank = std::ceil(static_cast<double>(values.size()) * percent / 100);
  const auto at = static_cast<std::ptrdiff_t>(std::max(1.0, rank)) - 1;
  std::ranges::nth_element(values, values.begin() + at);
  return values[static_cast<std::size_t>(at)];
}

}  // namespace gpunode::bench
