#include "tools/carrier/device_libraries.hpp"

#include <dlfcn.h>
#include <glob.h>

#include <cstdlib>
#include <cstring>
#include <vector>

namespace gpunode::carrier {
namespace {

class Library {
 public:
  Library(void* handle, std::string name) : handle_(handle), name_(std::move(name)) {}

  template <class Function>
  Library& load(Function& function, const char* name, bool needed = true) {
    void* symbol = dlsym(handle_, name);
    static_assert(sizeof symbol == sizeof function);
    std::memcpy(&function, &symbol, sizeof symbol);
    if (!symbol && needed && missing_.empty()) missing_ = name;
    return *this;
  }
  Result<void> whole() const {
    if (missing_.empty()) return {};
    return {ErrorCode::unsupported, name_ + " lacks " + missing_ + ": install a newer one"};
  }

 private:
  void* handle_;
  std::string name_, missing_;
};

constexpr const char* kNccl = "libnccl.so.2";

// What the packages of python3 that bring NCCL call it, here and in a virtual environment.
std::vector<std::string> python_places() {
  std::vector<std::string> roots{"/usr/lib", "/usr/local/lib"}, places;
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const char* root = std::getenv(variable)) roots.push_back(std::string(root) + "/lib");
  for (const std::string& root : roots)
    for (const char* packages : {"site-packages", "dist-packages"})
      for (const char* folder : {"nvidia/nccl/lib", "torch/lib"}) {
        const std::string pattern = root + "/python3*/" + packages + "/" + folder + "/" + kNccl;
        glob_t found{};
        if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
          places.insert(places.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
        globfree(&found);
      }
  return places;
}

Result<Library> open_nccl() {
  std::vector<std::string> places;
  const char* folder = std::getenv("GPUNODE_NCCL_FOLDER");
  if (folder && *folder) {
    places = {std::string(folder) + "/" + kNccl};
  } else {
    places = python_places();
    places.insert(places.begin(), {kNccl, std::string("/usr/local/cuda/lib64/") + kNccl});
  }
  std::string cause;
  for (const std::string& place : places) {
    if (void* handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) return Library(handle, place);
    if (const char* text = dlerror(); text && cause.empty()) cause = text;
  }
  return Error{ErrorCode::unsupported,
               "no NCCL (" + cause + "): install " + kNccl +
                   ", or name the folder that it is in, in GPUNODE_NCCL_FOLDER"};
}

}  // namespace

Result<CudaDriver> CudaDriver::open() {
  constexpr const char* kName = "libcuda.so.1";
  void* handle = dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* cause = dlerror();
    return Error{ErrorCode::unsupported,
                 std::string("no NVIDIA driver (") + (cause ? cause : kName) + ")"};
  }
  CudaDriver driver;
  Library library(handle, kName);
  library.load(driver.init, "cuInit")
      .load(driver.device_by_place, "cuDeviceGetByPCIBusId")
      .load(driver.retain_context, "cuDevicePrimaryCtxRetain")
      .load(driver.use_context, "cuCtxSetCurrent")
      .load(driver.open_memory, "cuIpcOpenMemHandle_v2")
      .load(driver.close_memory, "cuIpcCloseMemHandle")
      .load(driver.create_stream, "cuStreamCreate")
      .load(driver.query_stream, "cuStreamQuery")
      .load(driver.error_name, "cuGetErrorName", false);
  if (auto whole = library.whole(); !whole) return whole.error();
  return driver;
}

Result<void> CudaDriver::check(int code, const char* what) const {
  if (code == kCuSuccess) return {};
  const char* name = nullptr;
  if (!error_name || error_name(code, &name) != kCuSuccess) name = nullptr;
  return {ErrorCode::unavailable, std::string(what) + ": the driver says " +
                                      (name ? name : "error " + std::to_string(code))};
}

Result<Nccl> Nccl::open() {
  auto library = open_nccl();
  if (!library) return library.error();
  Nccl nccl;
  library->load(nccl.get_version, "ncclGetVersion")
      .load(nccl.get_id, "ncclGetUniqueId")
      .load(nccl.init_rank, "ncclCommInitRank")
      .load(nccl.group_start, "ncclGroupStart")
      .load(nccl.group_end, "ncclGroupEnd")
      .load(nccl.send, "ncclSend")
      .load(nccl.receive, "ncclRecv")
      .load(nccl.async_error, "ncclCommGetAsyncError")
      .load(nccl.error_text, "ncclGetErrorString")
      .load(nccl.last_error, "ncclGetLastError", false);
  if (auto whole = library->whole(); !whole) return whole.error();
  return nccl;
}

Result<void> Nccl::check(int code, const char* what, NcclComm comm) const {
  if (code == kNcclSuccess) return {};
  const char* text = error_text(code);
  std::string told =
      std::string(what) + ": NCCL says " + (text ? text : "error " + std::to_string(code));
  if (const char* more = last_error ? last_error(comm) : nullptr; more && *more)
    told += std::string(" (") + more + ")";
  return {ErrorCode::unavailable, told};
}

std::string nccl_version_text(int number) {
  const int major = number >= 10000 ? number / 10000 : number / 1000;
  const int rest = number >= 10000 ? number % 10000 : number % 1000;
  return std::to_string(major) + "." + std::to_string(rest / 100) + "." +
         std::to_string(rest % 100);
}

}  // namespace gpunode::carrier
