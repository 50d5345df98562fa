// A library with the CUDA driver's names and no GPU behind it, so that the carrier's process is
// tested without one. There is one GPU, at 0000:0a:00.0. Memory's handle is the name of a POSIX
// shared memory object; the "device's" addresses are this process's own. FAKE_DRIVER_FAIL in the
// environment names a function that fails, with error 999.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>

namespace {

constexpr int kNotReady = 600, kNoDevice = 101, kInvalid = 1, kUnknown = 999;

struct Handle {
  char name[64];
};

bool fails(const char* function) {
  const char* named = std::getenv("FAKE_DRIVER_FAIL");
  return named && std::strcmp(named, function) == 0;
}

std::map<unsigned long long, std::size_t> mapped;
int looks = 0;

}  // namespace

extern "C" {

int cuInit(unsigned) {
  return fails("cuInit") ? kUnknown : 0;
}
int cuDeviceGetByPCIBusId(int* device, const char* place) {
  *device = 0;
  return std::strcmp(place, "0000:0a:00.0") == 0 ? 0 : kNoDevice;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  static int one;
  *context = &one;
  return 0;
}
int cuCtxSetCurrent(void*) {
  return 0;
}
int cuIpcOpenMemHandle_v2(unsigned long long* place, Handle handle, unsigned flags) {
  if (fails("cuIpcOpenMemHandle")) return kUnknown;
  if (flags != 1 || handle.name[63] != '\0') return kInvalid;
  const int file = shm_open(handle.name, O_RDWR | O_CLOEXEC, 0);
  struct stat about = {};
  if (file < 0 || fstat(file, &about) != 0) return kInvalid;
  const auto bytes = static_cast<std::size_t>(about.st_size);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) return kInvalid;
  *place = reinterpret_cast<unsigned long long>(memory);
  mapped[*place] = bytes;
  return 0;
}
int cuIpcCloseMemHandle(unsigned long long place) {
  const auto one = mapped.find(place);
  if (one == mapped.end()) return kInvalid;
  munmap(reinterpret_cast<void*>(place), one->second);
  mapped.erase(one);
  return 0;
}
int cuStreamCreate(void** stream, unsigned flags) {
  static int one;
  *stream = &one;
  return flags == 1 ? 0 : kInvalid;
}
// Work is done when it is queued, but shows so only at the third look.
int cuStreamQuery(void*) {
  if (fails("cuStreamQuery")) return kUnknown;
  return ++looks % 3 == 0 ? 0 : kNotReady;
}
int cuGetErrorName(int code, const char** name) {
  *name = code == kNoDevice  ? "CUDA_ERROR_NO_DEVICE"
          : code == kInvalid ? "CUDA_ERROR_INVALID_VALUE"
                             : "CUDA_ERROR_UNKNOWN";
  return 0;
}
}
