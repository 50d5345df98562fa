// A library with the names of NCCL and of the CUDA driver and no GPU behind them, so that mode nccl
// is tested on machines without one. "GPU memory" is the process's own; ranks sum through a file
// below $HOME, in the order of their ranks, and wait for each other as NCCL's do: for ever. Files
// named by the environment make it misbehave while they are there:
//   FAKE_NCCL_HANG   a sum never comes back
//   FAKE_NCCL_FAIL   a sum fails
//   FAKE_NCCL_WRONG  a sum's first element is another one on this rank
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr std::size_t kNameBytes = 128, kMostRanks = 16, kSlotBytes = std::size_t{64} << 20;

struct Meeting {
  std::atomic<std::uint32_t> joined, arrived, turn;
};

struct Name {
  char internal[kNameBytes];
};

struct Comm {
  Meeting* meeting = nullptr;
  int rank = 0, count = 1;
};

bool asked_for(const char* variable) {
  const char* file = std::getenv(variable);
  return file && access(file, F_OK) == 0;
}

[[noreturn]] void hang() {
  for (;;) pause();
}

// All ranks come here; the last one lets all go.
void meet(Comm& comm) {
  Meeting& meeting = *comm.meeting;
  const std::uint32_t turn = meeting.turn.load();
  if (meeting.arrived.fetch_add(1) + 1 == static_cast<std::uint32_t>(comm.count)) {
    meeting.arrived = 0;
    ++meeting.turn;
    return;
  }
  while (meeting.turn.load() == turn) usleep(200);
}

float* slot(const Comm& comm, int rank) {
  auto* base = reinterpret_cast<char*>(comm.meeting);
  return reinterpret_cast<float*>(base + 4096 + static_cast<std::size_t>(rank) * kSlotBytes);
}

}  // namespace

extern "C" {

int cuInit(unsigned) {
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = 1;
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? 0 : 101;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  static int one;
  *context = &one;
  return 0;
}
int cuCtxSetCurrent(void*) {
  return 0;
}
int cuMemAlloc_v2(unsigned long long* memory, std::size_t bytes) {
  *memory = reinterpret_cast<unsigned long long>(std::malloc(bytes));
  return *memory ? 0 : 2;
}
int cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, std::size_t bytes, void*) {
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return 0;
}
int cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, std::size_t bytes, void*) {
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return 0;
}
int cuStreamCreate(void** stream, unsigned) {
  *stream = nullptr;
  return 0;
}
int cuStreamSynchronize(void*) {
  return 0;
}

int ncclGetUniqueId(Name* name) {
  std::memset(name, 0, sizeof *name);
  std::snprintf(name->internal, sizeof name->internal, "%s/fake-nccl-%d", std::getenv("HOME"),
                getpid());
  return 0;
}
int ncclCommInitRank(Comm** comm, int count, Name name, int rank) {
  if (count < 1 || count > static_cast<int>(kMostRanks) || rank >= count) return 4;
  const int file = open(name.internal, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const std::size_t bytes = 4096 + kMostRanks * kSlotBytes;  // sparse
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return 2;
  void* place = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (place == MAP_FAILED) return 2;
  *comm = new Comm{static_cast<Meeting*>(place), rank, count};
  meet(**comm);
  if (rank == 0) unlink(name.internal);
  return 0;
}
int ncclAllReduce(const void* in, void* out, std::size_t count, int type, int operation, Comm* comm,
                  void*) {
  if (asked_for("FAKE_NCCL_HANG")) hang();
  if (asked_for("FAKE_NCCL_FAIL")) return 2;
  if (type != 7 || operation != 0 || count * sizeof(float) > kSlotBytes) return 4;
  std::memcpy(slot(*comm, comm->rank), in, count * sizeof(float));
  meet(*comm);
  auto* sum = static_cast<float*>(out);
  std::memcpy(sum, slot(*comm, 0), count * sizeof(float));
  for (int rank = 1; rank < comm->count; ++rank)
    for (std::size_t i = 0; i < count; ++i) sum[i] += slot(*comm, rank)[i];
  meet(*comm);
  if (asked_for("FAKE_NCCL_WRONG") && count > 0) sum[0] += 1;
  return 0;
}
int ncclCommGetAsyncError(Comm*, int* state) {
  *state = 0;
  return 0;
}
const char* ncclGetErrorString(int code) {
  return code == 2 ? "unhandled system error" : "invalid argument";
}
}
