#include "kernels/cpu/cpu_backend.hpp"

#include <oneapi/dnnl/dnnl.h>
#include <unistd.h>

#include <cstring>
#include <map>

#include "kernels/cpu/detail/cpu_stream.hpp"
#include "kernels/cpu/detail/isa.hpp"
#include "kernels/cpu/operations.hpp"

namespace gpunode::cpu {
namespace {

class CpuEvent final : public tensor::Event {
 public:
  Result<void> synchronise(tensor::WaitSite) override { return {}; }
};

std::string library_text() {
  static const std::map<int, std::string> kNames = {{dnnl_cpu_isa_sse41, "sse4.1"},
                                                    {dnnl_cpu_isa_avx, "avx"},
                                                    {dnnl_cpu_isa_avx2, "avx2"},
                                                    {dnnl_cpu_isa_avx2_vnni, "avx2 vnni"},
                                                    {dnnl_cpu_isa_avx512_core, "avx512"},
                                                    {dnnl_cpu_isa_avx512_core_vnni, "avx512 vnni"},
                                                    {dnnl_cpu_isa_avx512_core_bf16, "avx512 bf16"},
                                                    {dnnl_cpu_isa_avx512_core_amx, "avx512 amx"}};
  const dnnl_version_t* version = dnnl_version();
  const auto isa = kNames.find(dnnl_get_effective_cpu_isa());
  return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch) + " (" + (isa == kNames.end() ? "other" : isa->second) +
         ")";
}

class CpuBackend final : public ops::Backend {
 public:
  explicit CpuBackend(const Options& options) : team_(options.threads) {
    capabilities_.instruction_set = to_string(current_isa());
    capabilities_.library = library_text();
    capabilities_.memory_bytes = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                                 static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    capabilities_.host_accessible = true;
    operations_.matmul = matmul;
    operations_.layernorm = layernorm;
    operations_.layernorm_backward = layernorm_backward;
    operations_.gelu = gelu;
    operations_.gelu_backward = gelu_backward;
    operations_.attention = attention;
    operations_.attention_backward = attention_backward;
    operations_.attention_paged = attention_paged;
    operations_.embedding = embedding;
    operations_.embedding_backward = embedding_backward;
    operations_.cross_entropy = cross_entropy;
    operations_.add = add;
    operations_.column_sum = column_sum;
    operations_.adamw = adamw;
    operations_.square_sum = square_sum;
    operations_.rmsnorm = rmsnorm;
    operations_.rmsnorm_backward = rmsnorm_backward;
    operations_.swiglu = swiglu;
    operations_.swiglu_backward = swiglu_backward;
    operations_.rotary = rotary;
    operations_.relu = relu;
    operations_.relu_backward = relu_backward;
    operations_.tanh = tanh;
    operations_.tanh_backward = tanh_backward;
    operations_.conv2d = conv2d;
    operations_.conv2d_backward = conv2d_backward;
    operations_.batchnorm = batchnorm;
    operations_.batchnorm_backward = batchnorm_backward;
    operations_.batchnorm_statistics = batchnorm_statistics;
    operations_.follow = follow;
    operations_.max_pool2d = max_pool2d;
    operations_.max_pool2d_backward = max_pool2d_backward;
    operations_.mean_pool = mean_pool;
    operations_.mean_pool_backward = mean_pool_backward;
    operations_.pack_product = pack_product;
    operations_.pack_bf16 = pack_bf16;
    operations_.unpack_bf16 = unpack_bf16;
    operations_.pack_int8 = pack_int8;
    operations_.pack_int8_carrying = pack_int8_carrying;
    operations_.unpack_int8 = unpack_int8;
    operations_.pack_top = pack_top;
    operations_.unpack_top = unpack_top;
    operations_.block_digest = block_digest;
  }

  const tensor::Device& device() const override { return memory()->device(); }
  const ops::Capabilities& capabilities() const override { return capabilities_; }
  const ops::Operations& operations() const override { return operations_; }
  std::shared_ptr<tensor::Memory> memory() const override { return tensor::host_memory(); }

  Result<std::unique_ptr<tensor::Stream>> open_stream() override {
    return std::unique_ptr<tensor::Stream>(std::make_unique<CpuStream>(team_));
  }
  Result<void> upload(tensor::Stream&, ByteView from, void* to) override {
    std::memcpy(to, from.data(), from.size());
    return {};
  }
  Result<void> download(tensor::Stream&, const void* from, MutableByteView to) override {
    std::memcpy(to.data(), from, to.size());
    return {};
  }
  Result<void> copy(tensor::Stream&, const void* from, void* to, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
    return {};
  }
  Result<void> clear(tensor::Stream&, void* to, std::size_t bytes) override {
    std::memset(to, 0, bytes);
    return {};
  }
  Result<std::unique_ptr<tensor::Event>> record(tensor::Stream&) override {
    return std::unique_ptr<tensor::Event>(std::make_unique<CpuEvent>());
  }
  Result<void> wait(tensor::Stream&, const tensor::Event&, tensor::WaitSite) override { return {}; }

 private:
  ThreadTeam team_;
  ops::Capabilities capabilities_;
  ops::Operations operations_;
};

}  // namespace

Result<void> pin_instruction_set(std::string_view name) {
  for (const auto& [own, products] :
       {std::pair{Isa::avx512, dnnl_cpu_isa_avx512_core}, std::pair{Isa::avx2, dnnl_cpu_isa_avx2},
        std::pair{Isa::portable, dnnl_cpu_isa_sse41}}) {
    if (name != to_string(own)) continue;
    if (!use_isa(own))
      return {ErrorCode::unsupported, "this processor has no " + std::string(name) +
                                          ": pin what all members have, e.g. avx2"};
    if (dnnl_set_max_cpu_isa(products) != dnnl_success)
      return {
          ErrorCode::wrong_state,
          "oneDNN has chosen its instruction set already: pin it before the first backend opens"};
    return {};
  }
  return {ErrorCode::invalid_argument,
          "no instruction set '" + std::string(name) + "': use avx512, avx2 or portable"};
}

std::unique_ptr<ops::Backend> open_backend(const Options& options) {
  return std::make_unique<CpuBackend>(options);
}

}  // namespace gpunode::cpu
