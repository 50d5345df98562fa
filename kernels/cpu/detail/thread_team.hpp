// A team of threads for one operation at a time: the caller and helpers that take parts of its work,
// whichever is free the next one. An operation whose parts are not sums of one another has the same
// bits with any number of threads. Owned by the CPU's backend; used by any thread.
//
// Helpers start with the first work, wait busily for more for some 50 us behind each, as operations
// follow one another, and sleep then: an idle process uses no processor. Of work that finds the team
// at that of another thread, or of a part of its own, its caller does all parts. A run of nothing
// costs 0.2 to 3 us while helpers wait busily, and waking them some 5 us more.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace gpunode::cpu {

// Processors that this process may run on.
int usable_cores();

class ThreadTeam {
 public:
  static constexpr int kMostThreads = 64, kMostParts = (1 << 20) - 1;

  // `threads` in all, with the caller; 0: as many as usable_cores(). At most kMostThreads.
  explicit ThreadTeam(int threads);
  // No thread may be in run().
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int threads() const { return threads_; }

  // Calls work(part) once for each part of [0, parts), on several threads at a time, and returns when
  // all have returned. It must not throw; it may call run() of this team, which it then does alone.
  template <class Work>
  void run(int parts, Work&& work) {
    using Own = std::remove_reference_t<Work>;
    run_parts(
        parts, [](void* context, int part) { (*static_cast<Own*>(context))(part); },
        const_cast<void*>(static_cast<const void*>(&work)));
  }

 private:
  using Call = void (*)(void* context, int part);

  void run_parts(int parts, Call call, void* context);
  void start_helpers();
  void help();
  // Takes parts of the work that is under way until none is left. False if there was none.
  bool take_parts();

  const int threads_;
  std::atomic<bool> busy_ = false;  // whoever sets it may hand out work
  bool started_ = false;            // guarded by busy_
  std::vector<std::thread> helpers_;

  // The work under way: number << 40 | parts << 20 | parts that were taken. A part is taken by
  // exchanging this word, so that call_ and context_, read before, were those of the same work.
  alignas(64) std::atomic<std::uint64_t> work_ = 0;
  std::atomic<Call> call_ = nullptr;
  std::atomic<void*> context_ = nullptr;
  alignas(64) std::atomic<std::uint32_t> done_ = 0;  // parts
  alignas(64) std::atomic<std::uint32_t> bell_ = 0;  // rung where helpers sleep
  std::atomic<std::uint32_t> sleepers_ = 0;
  std::atomic<bool> closing_ = false;
};

}  // namespace gpunode::cpu
