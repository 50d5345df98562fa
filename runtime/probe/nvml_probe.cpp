// NVML, opened at run time. The few declarations below are those of NVML's public, versioned ABI;
// nothing of it is needed to build. Any function may be missing in an old driver: then the figure
// is unknown.
#include <dlfcn.h>

#include <cstring>
#include <map>

#include "runtime/probe/gpu_probe.hpp"

namespace gpunode::probe {

namespace {

using DeviceHandle = struct nvmlDevice_st*;
struct Memory {
  unsigned long long total, free, used;
};
struct Utilization {
  unsigned gpu, memory;
};
struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
using EventSetHandle = struct nvmlEventSet_st*;
struct EventData {
  DeviceHandle device;
  unsigned long long type, data;  // of an Xid its number
  unsigned gpu_instance, compute_instance;
};
constexpr unsigned long long kXidCriticalError = 8;
constexpr int kMaxEvents = 256;  // that are taken with one sample; the others wait in the driver
constexpr int kSuccess = 0;
constexpr int kGpuIsLost = 15;
constexpr int kResetRequired = 16;
constexpr int kTemperatureGpu = 0;
constexpr int kUncorrected = 1, kSinceReset = 0;  // of memory errors
constexpr unsigned kMaxDevices = 256;

class NvmlProbe final : public GpuProbe {
 public:
  explicit NvmlProbe(const std::string& library)
      : handle_(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (!handle_) {
      reason_ = "no GPU driver: " + library + " is not installed";
      return;
    }
    if (!init_ || !count_ || !by_index_) {
      reason_ = "no GPU driver: " + library + " lacks the functions of NVML";
      return;
    }
    if (const int code = init_(); code != kSuccess) {
      reason_ = "no GPU driver: NVML does not start (" + text_of(code) + ")";
      return;
    }
    started_ = true;
    char version[96] = {};
    if (driver_version_ && driver_version_(version, sizeof version - 1) == kSuccess)
      version_ = version;
    register_events();
  }
  ~NvmlProbe() override {
    if (event_set_ && free_set_) free_set_(event_set_);
    if (started_ && shutdown_) shutdown_();
    if (handle_) dlclose(handle_);
  }
  NvmlProbe(const NvmlProbe&) = delete;
  NvmlProbe& operator=(const NvmlProbe&) = delete;

  std::vector<GpuSample> sample() override {
    std::vector<GpuSample> samples;
    unsigned count = 0;
    if (!started_ || count_(&count) != kSuccess) return samples;
    for (unsigned index = 0; index < count && index < kMaxDevices; ++index)
      samples.push_back(sample_device(index));
    take_events(samples);
    return samples;
  }
  std::string absent_reason() const override { return reason_; }
  std::optional<std::string> driver_version() const override { return version_; }

 private:
  // What the library calls so, as a pointer to a function; null if it has none.
  struct Symbol {
    void* address;
    template <class Function>
    operator Function*() const {
      return reinterpret_cast<Function*>(address);
    }
  };
  Symbol find(const char* name) const { return {handle_ ? dlsym(handle_, name) : nullptr}; }
  std::string text_of(int code) const {
    const char* text = error_string_ ? error_string_(code) : nullptr;
    return text ? text : "error " + std::to_string(code);
  }
  // Whether the call gave a figure; notes a lost device.
  static bool good(int code, GpuSample& sample) {
    if (code == kGpuIsLost || code == kResetRequired) sample.lost = true;
    return code == kSuccess;
  }

  // A device that knows no events is left out.
  void register_events() {
    unsigned count = 0;
    if (!create_set_ || !register_ || !wait_ || count_(&count) != kSuccess) return;
    if (create_set_(&event_set_) != kSuccess) {
      event_set_ = nullptr;
      return;
    }
    for (unsigned index = 0; index < count && index < kMaxDevices; ++index)
      if (DeviceHandle device = nullptr;
          by_index_(index, &device) == kSuccess &&
          register_(device, kXidCriticalError, event_set_) == kSuccess)
        registered_[device] = index;
  }
  // What has happened since the last time; waits for nothing.
  void take_events(std::vector<GpuSample>& samples) {
    if (!event_set_) return;
    EventData event{};
    for (int taken = 0; taken < kMaxEvents && wait_(event_set_, &event, 0) == kSuccess; ++taken) {
      const auto found = registered_.find(event.device);
      if (event.type == kXidCriticalError && found != registered_.end() &&
          found->second < samples.size())
        samples[found->second].xids.push_back(static_cast<unsigned>(event.data));
    }
  }

  GpuSample sample_device(unsigned index) {
    GpuSample sample;
    sample.index = index;
    DeviceHandle device = nullptr;
    if (!good(by_index_(index, &device), sample)) return sample;
    char text[128] = {};
    if (name_ && good(name_(device, text, sizeof text - 1), sample)) sample.name = text;
    std::memset(text, 0, sizeof text);
    if (uuid_ && good(uuid_(device, text, sizeof text - 1), sample)) sample.uuid = text;
    PciInfo pci{};
    if (pci_ && good(pci_(device, &pci), sample))
      sample.pci_bus_id = std::string(pci.bus_id, strnlen(pci.bus_id, sizeof pci.bus_id));
    if (Memory memory{}; memory_ && good(memory_(device, &memory), sample)) {
      sample.memory_total_bytes = memory.total;
      sample.memory_free_bytes = memory.free;
      sample.memory_used_bytes = memory.used;
    }
    if (Utilization use{}; utilization_ && good(utilization_(device, &use), sample))
      sample.utilization_percent = use.gpu;
    unsigned value = 0;
    if (temperature_ && good(temperature_(device, kTemperatureGpu, &value), sample))
      sample.temperature_celsius = static_cast<int>(value);
    if (power_ && good(power_(device, &value), sample)) sample.power_watts = value / 1000.0;
    if (unsigned long long errors = 0;
        errors_ && good(errors_(device, kUncorrected, kSinceReset, &errors), sample))
      sample.uncorrected_errors = errors;
    return sample;
  }

  void* const handle_;
  bool started_ = false;
  std::string reason_;
  std::optional<std::string> version_;
  EventSetHandle event_set_ = nullptr;
  std::map<DeviceHandle, unsigned> registered_;  // to their index
  int (*init_)() = find("nvmlInit_v2");
  int (*shutdown_)() = find("nvmlShutdown");
  const char* (*error_string_)(int) = find("nvmlErrorString");
  int (*driver_version_)(char*, unsigned) = find("nvmlSystemGetDriverVersion");
  int (*count_)(unsigned*) = find("nvmlDeviceGetCount_v2");
  int (*by_index_)(unsigned, DeviceHandle*) = find("nvmlDeviceGetHandleByIndex_v2");
  int (*name_)(DeviceHandle, char*, unsigned) = find("nvmlDeviceGetName");
  int (*uuid_)(DeviceHandle, char*, unsigned) = find("nvmlDeviceGetUUID");
  int (*memory_)(DeviceHandle, Memory*) = find("nvmlDeviceGetMemoryInfo");
  int (*utilization_)(DeviceHandle, Utilization*) = find("nvmlDeviceGetUtilizationRates");
  int (*pci_)(DeviceHandle, PciInfo*) = find("nvmlDeviceGetPciInfo_v3");
  int (*temperature_)(DeviceHandle, int, unsigned*) = find("nvmlDeviceGetTemperature");
  int (*errors_)(DeviceHandle, int, int, unsigned long long*) = find("nvmlDeviceGetTotalEccErrors");
  int (*power_)(DeviceHandle, unsigned*) = find("nvmlDeviceGetPowerUsage");
  int (*create_set_)(EventSetHandle*) = find("nvmlEventSetCreate");
  int (*free_set_)(EventSetHandle) = find("nvmlEventSetFree");
  int (*register_)(DeviceHandle, unsigned long long,
                   EventSetHandle) = find("nvmlDeviceRegisterEvents");
  int (*wait_)(EventSetHandle, EventData*, unsigned) = find("nvmlEventSetWait_v2");
};

}  // namespace

std::unique_ptr<GpuProbe> open_nvml_probe(const std::string& library) {
  return std::make_unique<NvmlProbe>(library);
}

}  // namespace gpunode::probe
