// A library with NVML's names and no GPU behind it, so that the opening at run time is tested on
// machines without a driver. The test tells it what to say through fake_nvml_set(), or, where it has
// another process, in a file that it names by FAKE_NVML_READINGS and may replace at any time: lines
// "<device> celsius|errors|xid <number>"; each line of an Xid happens once, in their order. Built
// with FAKE_NVML_WITHOUT_EVENTS it is the library of a driver that knows no events.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <mutex>
#include <optional>
#include <string>

namespace {
std::atomic<int> init_code = 0;
std::atomic<unsigned> devices = 2;
std::atomic<int> query_code = 0;       // what queries of device 1 answer
std::atomic<bool> has_errors = false;  // whether the devices count memory errors at all
int handles[2];

// Of the n-th line, from 0, with that word; of that device, or with none of any, whose number comes
// back.
std::optional<unsigned long long> reading(const char* wanted, std::optional<int> device,
                                          unsigned skip = 0, int* whose = nullptr) {
  const char* path = std::getenv("FAKE_NVML_READINGS");
  if (!path) return std::nullopt;
  std::ifstream file(path);
  int at = 0;
  std::string word;
  unsigned long long number = 0;
  while (file >> at >> word >> number) {
    if (word != wanted || (device && at != *device) || skip-- > 0) continue;
    if (whose) *whose = at;
    return number;
  }
  return std::nullopt;
}
int index_of(void* device) {
  return device == &handles[1] ? 1 : 0;
}
}  // namespace

extern "C" {
void fake_nvml_count_errors(int counts) {
  has_errors = counts != 0;
}
void fake_nvml_set(int init, unsigned count, int query) {
  init_code = init;
  devices = count;
  query_code = query;
}
int nvmlInit_v2() {
  return init_code;
}
int nvmlShutdown() {
  return 0;
}
const char* nvmlErrorString(int code) {
  return code == 9 ? "Driver Not Loaded" : "Unknown Error";
}
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::strncpy(text, "999.1", length);
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = devices;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= 2) return 2;
  *device = &handles[index];
  return index == 1 ? query_code.load() : 0;
}
int nvmlDeviceGetName(void*, char* text, unsigned length) {
  std::strncpy(text, "Fake GPU", length);
  return 0;
}
int nvmlDeviceGetUUID(void*, char* text, unsigned length) {
  std::strncpy(text, "GPU-1234", length);
  return 0;
}
int nvmlDeviceGetMemoryInfo(void*, unsigned long long* memory) {
  memory[0] = 1000;
  memory[1] = 600;
  memory[2] = 400;
  return 0;
}
int nvmlDeviceGetUtilizationRates(void*, unsigned* rates) {
  rates[0] = 55;
  rates[1] = 10;
  return 0;
}
int nvmlDeviceGetPciInfo_v3(void* device, char* pci) {
  std::memset(pci, 0, 68);
  std::strcpy(pci + 36, device == &handles[0] ? "00000000:01:00.0" : "00000000:C1:00.0");
  return 0;
}
int nvmlDeviceGetTemperature(void* device, int, unsigned* celsius) {
  *celsius = static_cast<unsigned>(reading("celsius", index_of(device)).value_or(61));
  return 0;
}
// Asked for those that could not be corrected, since the last reset, it tells three of device 1.
int nvmlDeviceGetTotalEccErrors(void* device, int kind, int since, unsigned long long* errors) {
  if (kind != 1 || since != 0) return 2;
  if (std::getenv("FAKE_NVML_READINGS")) {
    *errors = reading("errors", index_of(device)).value_or(0);
    return 0;
  }
  *errors = device == &handles[1] ? 3 : 0;
  return has_errors ? 0 : 3;
}
#ifndef FAKE_NVML_WITHOUT_EVENTS
namespace {
struct Event {  // as NVML's; an instance is one of MIG
  void* device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
constexpr unsigned long long kXidCriticalError = 8;
std::mutex event_mutex;  // over what follows
std::deque<Event> events;
unsigned xids_read = 0;
bool is_registered[2] = {};
}  // namespace

// Happens on a device that was registered for it, else nobody hears of it.
void fake_nvml_happen(int device, unsigned long long type, unsigned long long data) {
  std::lock_guard lock(event_mutex);
  if (is_registered[device]) events.push_back({&handles[device], type, data, ~0u, ~0u});
}
int nvmlEventSetCreate(void** set) {
  *set = &events;
  return 0;
}
int nvmlEventSetFree(void*) {
  std::lock_guard lock(event_mutex);
  events.clear();
  is_registered[0] = is_registered[1] = false;
  return 0;
}
int nvmlDeviceRegisterEvents(void* device, unsigned long long types, void* set) {
  if (types != kXidCriticalError || set != &events) return 2;
  std::lock_guard lock(event_mutex);
  is_registered[index_of(device)] = true;
  return 0;
}
// Never waits, and refuses to be asked to.
int nvmlEventSetWait_v2(void* set, Event* event, unsigned milliseconds) {
  if (set != &events || milliseconds != 0) return 2;
  std::lock_guard lock(event_mutex);
  int device = 0;
  if (const auto xid = reading("xid", std::nullopt, xids_read, &device); xid && device < 2) {
    ++xids_read;
    if (is_registered[device])
      events.push_back({&handles[device], kXidCriticalError, *xid, ~0u, ~0u});
  }
  if (events.empty()) return 10;  // the time is over
  *event = events.front();
  events.pop_front();
  return 0;
}
#endif
// Not supported on this device; nvmlDeviceGet... figures that are absent must stay absent.
int nvmlDeviceGetPowerUsage(void*, unsigned*) {
  return 3;
}
}
