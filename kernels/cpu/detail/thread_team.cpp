#include "kernels/cpu/detail/thread_team.hpp"

#include <immintrin.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <csignal>
#include <system_error>

#include "runtime/base/check.hpp"

namespace gpunode::cpu {
namespace {

constexpr int kPartBits = 20;
constexpr std::uint64_t kPartMask = (1u << kPartBits) - 1;
constexpr int kSpins = 1200;  // each some 40 ns: of a helper without work

std::uint64_t parts_of(std::uint64_t work) {
  return work >> kPartBits & kPartMask;
}
std::uint64_t taken_of(std::uint64_t work) {
  return work & kPartMask;
}
bool has_parts(std::uint64_t work) {
  return taken_of(work) < parts_of(work);
}

// Threads that are started meanwhile get no signal: those are for the program's own threads.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

int usable_cores() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

ThreadTeam::ThreadTeam(int threads)
    : threads_(std::clamp(threads == 0 ? usable_cores() : threads, 1, kMostThreads)) {}

ThreadTeam::~ThreadTeam() {
  closing_.store(true);
  bell_.fetch_add(1);
  bell_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void ThreadTeam::run_parts(int parts, Call call, void* context) {
  GPUNODE_CHECK(parts >= 0 && parts <= kMostParts, "a team's work has too many parts");
  if (threads_ == 1 || parts <= 1 || busy_.exchange(true, std::memory_order_acquire)) {
    for (int part = 0; part < parts; ++part) call(context, part);
    return;
  }
  if (!started_) start_helpers();
  done_.store(0, std::memory_order_relaxed);
  call_.store(call, std::memory_order_relaxed);
  context_.store(context, std::memory_order_relaxed);
  const auto count = static_cast<std::uint32_t>(parts);
  const std::uint64_t number = (work_.load(std::memory_order_relaxed) >> 2 * kPartBits) + 1;
  work_.store(number << 2 * kPartBits | std::uint64_t{count} << kPartBits);
  if (sleepers_.load() > 0) {
    bell_.fetch_add(1);
    bell_.notify_all();
  }
  take_parts();
  int spins = 0;
  for (std::uint32_t done = done_.load(std::memory_order_acquire); done != count;
       done = done_.load(std::memory_order_acquire)) {
    if (++spins < kSpins)
      _mm_pause();
    else
      sched_yield();  // whoever has the last part may wait for this very core
  }
  busy_.store(false, std::memory_order_release);
}

void ThreadTeam::start_helpers() {
  started_ = true;
  const SignalsBlocked blocked;
  try {
    for (int helper = 1; helper < threads_; ++helper) {
      helpers_.emplace_back([this] { help(); });
      pthread_setname_np(helpers_.back().native_handle(), "cpu-team");
    }
  } catch (const std::system_error&) {
    // The machine gives no more threads: those that there are do all.
  }
}

bool ThreadTeam::take_parts() {
  bool any = false;
  std::uint64_t work = work_.load(std::memory_order_acquire);
  while (has_parts(work)) {
    const Call call = call_.load(std::memory_order_relaxed);
    void* context = context_.load(std::memory_order_relaxed);
    if (!work_.compare_exchange_weak(work, work + 1, std::memory_order_acq_rel,
                                     std::memory_order_acquire))
      continue;
    call(context, static_cast<int>(taken_of(work)));
    done_.fetch_add(1, std::memory_order_release);
    any = true;
    work = work_.load(std::memory_order_acquire);
  }
  return any;
}

void ThreadTeam::help() {
  int spins = 0;
  while (!closing_.load(std::memory_order_acquire)) {
    if (take_parts()) {
      spins = 0;
      continue;
    }
    if (++spins < kSpins) {
      _mm_pause();
      continue;
    }
    spins = 0;
    const std::uint32_t rung = bell_.load();
    sleepers_.fetch_add(1);
    // Work that came meanwhile is seen here, or its caller sees a sleeper and rings.
    if (!has_parts(work_.load()) && !closing_.load()) bell_.wait(rung);
    sleepers_.fetch_sub(1);
  }
}

}  // namespace gpunode::cpu
