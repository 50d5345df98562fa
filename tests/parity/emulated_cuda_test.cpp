// The logic of our own CUDA kernels where there is no GPU: compiled for the host against a small
// emulation, each agrees with the same float64 references; AdamW even bit for bit with the CPU.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cpu/cpu_backend.hpp"
#include "tests/parity/op_table.hpp"

#define kThreads kLayernormThreads
#include "kernels/cuda/toolkit/layernorm.cu"
#undef kThreads
#define kThreads kAdamwThreads
#include "kernels/cuda/toolkit/adamw.cu"
#undef kThreads

namespace gpunode::parity {
namespace {

// The CPU's table with the emulated kernels in the places of their twins.
ops::Operations emulated(ops::Operations operations) {
  operations.layernorm = [](tensor::Stream&, tensor::Workspace&,
                            const ops::LayernormArgs& a) -> Result<void> {
    const auto columns = static_cast<int>(a.weight.element_count());
    cuda::launch(cuda::LayernormLaunch{a.x.data, a.weight.data, a.bias.data, a.y.data, a.mean.data,
                                       a.rstd.data, static_cast<int>(a.x.element_count()) / columns,
                                       columns, a.epsilon},
                 nullptr);
    return {};
  };
  operations.layernorm_backward = [](tensor::Stream&, tensor::Workspace&,
                                     const ops::LayernormBackwardArgs& a) -> Result<void> {
    const auto columns = static_cast<int>(a.weight.element_count());
    cuda::launch(
        cuda::LayernormBackwardLaunch{a.dy.data, a.x.data, a.weight.data, a.mean.data, a.rstd.data,
                                      a.dx.data, a.dweight.data, a.dbias.data,
                                      static_cast<int>(a.x.element_count()) / columns, columns},
        nullptr);
    return {};
  };
  operations.adamw = [](tensor::Stream&, tensor::Workspace&,
                        const ops::AdamwArgs& a) -> Result<void> {
    cuda::launch(cuda::AdamwLaunch{a.gradient.data, a.weights.data, a.first.data, a.second.data,
                                   a.gradient.element_count(), a.scale, a.rate, a.beta1, a.beta2,
                                   a.epsilon, a.decay, a.upscale1, a.upscale2},
                 nullptr);
    return {};
  };
  return operations;
}

class EmulatedBackend final : public ops::Backend {
 public:
  const tensor::Device& device() const override { return host_->device(); }
  const ops::Capabilities& capabilities() const override { return host_->capabilities(); }
  const ops::Operations& operations() const override { return operations_; }
  std::shared_ptr<tensor::Memory> memory() const override { return host_->memory(); }
  Result<std::unique_ptr<tensor::Stream>> open_stream() override { return host_->open_stream(); }
  Result<void> upload(tensor::Stream& stream, ByteView from, void* to) override {
    return host_->upload(stream, from, to);
  }
  Result<void> download(tensor::Stream& stream, const void* from, MutableByteView to) override {
    return host_->download(stream, from, to);
  }

 private:
  std::unique_ptr<ops::Backend> host_ = cpu::open_backend();
  ops::Operations operations_ = emulated(host_->operations());
};

// Barriers among so many host threads are slow: only the small shapes.
bool is_small(const Case& one) {
  return one.inputs[0].size() <= 2000;
}

TEST(EmulatedCuda, AgreesWithTheDefinitionsInFloat64) {
  EmulatedBackend emulation;
  int compared = 0;
  for (const Case& one : cases()) {
    if (one.operation != "layernorm" && one.operation != "layernorm_backward" &&
        one.operation != "adamw")
      continue;
    if (!is_small(one)) continue;
    auto outputs = run_case(one, emulation);
    ASSERT_TRUE(outputs);
    EXPECT_LE(worst_difference(*outputs, one.reference(widen(one.inputs))), one.tolerance)
        << one.name;
    ++compared;
  }
  EXPECT_GE(compared, 8) << "rows of the table that were small enough";
}

TEST(EmulatedCuda, AdamwHasTheBitsOfTheCpu) {
  EmulatedBackend emulation;
  auto host = cpu::open_backend();
  for (const Case& one : cases()) {
    if (one.operation != "adamw" || !is_small(one)) continue;
    auto expected = run_case(one, *host);
    auto outputs = run_case(one, emulation);
    ASSERT_TRUE(expected && outputs);
    EXPECT_EQ(*expected, *outputs) << one.name;
  }
}

}  // namespace
}  // namespace gpunode::parity
