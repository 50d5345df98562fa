#include "tools/bench/rank_board.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <numeric>
#include <thread>

namespace gpunode::bench {

struct BoardPage {
  std::uint32_t ranks;
  Order order;
  sem_t ordered[kMaxRanks];
  sem_t done;
  pthread_barrier_t together;
  double seconds[kMaxRanks];
  double processor[kMaxRanks];
  char told[kMaxRanks][512];
  char failure[kMaxRanks][512];
};

namespace {

using Steady = std::chrono::steady_clock;

void write_line(char (&place)[512], const std::string& line) {
  const std::size_t size = std::min(line.size(), sizeof place - 1);
  std::memcpy(place, line.data(), size);
  place[size] = 0;
}

bool wait_for(sem_t& semaphore, std::chrono::milliseconds timeout) {
  timespec until{};
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += timeout.count() / 1000;
  until.tv_nsec += timeout.count() % 1000 * 1'000'000;
  if (until.tv_nsec >= 1'000'000'000) {
    ++until.tv_sec;
    until.tv_nsec -= 1'000'000'000;
  }
  int status;
  do {
    status = sem_timedwait(&semaphore, &until);
  } while (status != 0 && errno == EINTR);
  return status == 0;
}

// All threads of this process and what they start: else Linux (since 6.12 also with epoll) wakes
// who waits for bytes on the core of who sends them, and with few cores leaves it there.
void bind_to_core(std::uint32_t rank) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  std::uint32_t left = rank % static_cast<std::uint32_t>(CPU_COUNT(&allowed));
  CPU_ZERO(&one);
  for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core)
    if (CPU_ISSET(core, &allowed) && left-- == 0) CPU_SET(core, &one);
  std::error_code ignored;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", ignored))
    sched_setaffinity(std::atoi(task.path().filename().c_str()), sizeof one, &one);
}

Error system_error(const std::string& what) {
  return {ErrorCode::io_error, what + ": " + std::strerror(errno)};
}

Result<BoardPage*> open_page(const std::string& folder, int flags) {
  const std::string path = folder + "/board";
  const int file = ::open(path.c_str(), flags, 0600);
  if (file < 0) return system_error("cannot open " + path);
  void* place = MAP_FAILED;
  if (!(flags & O_CREAT) || ftruncate(file, sizeof(BoardPage)) == 0)
    place = mmap(nullptr, sizeof(BoardPage), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const Error cause = system_error("cannot map " + path);
  close(file);
  if (place == MAP_FAILED) return cause;
  return static_cast<BoardPage*>(place);
}

}  // namespace

double processor_seconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

RankBoard::RankBoard(BoardPage* page, std::string folder, bool owner)
    : page_(page), folder_(std::move(folder)), owner_(owner) {}

RankBoard::~RankBoard() {
  munmap(page_, sizeof(BoardPage));
  std::error_code ignored;
  if (owner_) std::filesystem::remove_all(folder_, ignored);
}

Result<std::unique_ptr<RankBoard>> RankBoard::create(std::uint32_t ranks) {
  const bool shared_memory = access("/dev/shm", W_OK) == 0;
  std::string folder = std::string(shared_memory ? "/dev/shm" : "/tmp") + "/gpunode-bench-XXXXXX";
  if (!mkdtemp(folder.data())) return system_error("cannot create " + folder);
  auto opened = open_page(folder, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC);
  if (!opened) return opened.error();
  std::unique_ptr<RankBoard> board(new RankBoard(*opened, folder, true));
  BoardPage& page = *board->page_;
  page.ranks = ranks;
  for (sem_t& ordered : page.ordered) sem_init(&ordered, 1, 0);
  sem_init(&page.done, 1, 0);
  pthread_barrierattr_t shared;
  pthread_barrierattr_init(&shared);
  pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&page.together, &shared, ranks);
  pthread_barrierattr_destroy(&shared);
  return board;
}

std::unique_ptr<RankBoard> RankBoard::open(const std::string& folder) {
  auto opened = open_page(folder, O_RDWR | O_CLOEXEC);
  if (!opened) {
    std::fprintf(stderr, "%s\n", opened.error().message().c_str());
    return nullptr;
  }
  return std::unique_ptr<RankBoard>(new RankBoard(*opened, folder, false));
}

std::uint32_t RankBoard::ranks() const {
  return page_->ranks;
}

Result<Spent> RankBoard::carry_out(const Order& order, Duration timeout,
                                   const std::function<bool()>& alive) {
  const auto deadline = Steady::now() + timeout;
  page_->order = order;
  for (std::uint32_t rank = 0; rank < page_->ranks; ++rank) sem_post(&page_->ordered[rank]);
  for (std::uint32_t heard = 0; heard < page_->ranks;) {
    if (wait_for(page_->done, std::chrono::milliseconds(200))) ++heard;
    for (std::uint32_t rank = 0; rank < page_->ranks; ++rank)
      if (page_->failure[rank][0])
        return Error{ErrorCode::internal,
                     "rank " + std::to_string(rank) + ": " + page_->failure[rank]};
    if (heard == page_->ranks) break;
    if (!alive()) return Error{ErrorCode::peer_lost, "a rank's process ended"};
    if (Steady::now() > deadline)
      return Error{ErrorCode::timeout, "the ranks did not answer in time"};
  }
  return Spent{*std::max_element(page_->seconds, page_->seconds + page_->ranks),
               std::accumulate(page_->processor, page_->processor + page_->ranks, 0.0)};
}

Result<void> RankBoard::obey(const Order& order, std::uint32_t rank, RankWork& work) {
  if (order.kind == Order::Kind::prepare) return work.prepare(order.element_count, order.setting);
  if (order.kind == Order::Kind::release) {
    work.release(order.setting);
    return {};
  }
  for (std::uint32_t turn = 0; turn < order.warm_up; ++turn) {
    if (auto ready = work.next(order.setting); !ready) return ready;
    if (auto done = work.run(order.setting); !done) return done;
  }
  Steady::duration spent{};
  double processor = 0;
  for (std::uint32_t turn = 0; turn < order.batch; ++turn) {
    if (auto ready = work.next(order.setting); !ready) return ready;
    if (turn == 0) meet();
    processor -= processor_seconds();
    const auto start = Steady::now();
    if (auto done = work.run(order.setting); !done) return done;
    spent += Steady::now() - start;
    processor += processor_seconds();
  }
  page_->seconds[rank] = std::chrono::duration<double>(spent).count() / order.batch;
  page_->processor[rank] = processor / order.batch;
  return {};
}

int RankBoard::serve(std::uint32_t rank, RankWork& work) {
  const pid_t parent = getppid();
  if (auto connected = work.connect(); !connected) {
    fail(rank, connected.error().message());
    return 1;
  }
  if (page_->ranks <= std::thread::hardware_concurrency()) bind_to_core(rank);
  for (;;) {
    while (!wait_for(page_->ordered[rank], std::chrono::seconds(2)))
      if (getppid() != parent) return 1;
    const Order order = page_->order;
    if (order.kind == Order::Kind::quit) {
      sem_post(&page_->done);
      return 0;
    }
    page_->seconds[rank] = page_->processor[rank] = 0;
    if (auto done = obey(order, rank, work); !done) {
      fail(rank, done.error().message());
      return 1;
    }
    sem_post(&page_->done);
  }
}

void RankBoard::meet() {
  pthread_barrier_wait(&page_->together);
}

void RankBoard::tell(std::uint32_t rank, const std::string& line) {
  write_line(page_->told[rank], line);
}

std::string RankBoard::told(std::uint32_t rank) const {
  return page_->told[rank];
}

void RankBoard::fail(std::uint32_t rank, const std::string& reason) {
  write_line(page_->failure[rank], reason.empty() ? "unknown failure" : reason);
}

}  // namespace gpunode::bench
