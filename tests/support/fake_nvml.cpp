// A library with NVML's names and no GPU behind it, so that the opening at run time is tested on
// machines without a driver. The test tells it what to say through fake_nvml_set().
#include <atomic>
#include <cstring>

namespace {
std::atomic<int> init_code = 0;
std::atomic<unsigned> devices = 2;
std::atomic<int> query_code = 0;       // what queries of device 1 answer
std::atomic<bool> has_errors = false;  // whether the devices count memory errors at all
int handles[2];
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
int nvmlDeviceGetTemperature(void*, int, unsigned* celsius) {
  *celsius = 61;
  return 0;
}
// Asked for those that could not be corrected, since the last reset, it tells three of device 1.
int nvmlDeviceGetTotalEccErrors(void* device, int kind, int since, unsigned long long* errors) {
  if (kind != 1 || since != 0) return 2;
  *errors = device == &handles[1] ? 3 : 0;
  return has_errors ? 0 : 3;
}
// Not supported on this device; nvmlDeviceGet... figures that are absent must stay absent.
int nvmlDeviceGetPowerUsage(void*, unsigned*) {
  return 3;
}
}
