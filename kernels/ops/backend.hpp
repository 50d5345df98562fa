// Backend: one device and the table of operations it has. kernels/cpu fills the whole table and is
// the definition of right; kernels/cuda fills what it has a twin for. An empty entry means that the
// device cannot do it; a node then takes another backend (actors/node/node.cpp). Concrete backends
// are named only there, in benchmarks and in tests. A backend may be used by many threads, a
// stream and a workspace by one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/ops/adamw.hpp"
#include "kernels/ops/add.hpp"
#include "kernels/ops/attention.hpp"
#include "kernels/ops/batchnorm.hpp"
#include "kernels/ops/block_digest.hpp"
#include "kernels/ops/conv2d.hpp"
#include "kernels/ops/cross_entropy.hpp"
#include "kernels/ops/device_group.hpp"
#include "kernels/ops/embedding.hpp"
#include "kernels/ops/gelu.hpp"
#include "kernels/ops/layernorm.hpp"
#include "kernels/ops/matmul.hpp"
#include "kernels/ops/pool.hpp"
#include "kernels/ops/relu.hpp"
#include "kernels/ops/rmsnorm.hpp"
#include "kernels/ops/rotary.hpp"
#include "kernels/ops/running.hpp"
#include "kernels/ops/swiglu.hpp"
#include "kernels/ops/tanh.hpp"
#include "kernels/ops/wire_forms.hpp"
#include "kernels/tensor/buffer.hpp"
#include "kernels/tensor/device.hpp"

namespace gpunode::ops {

struct Operations {
  Operation<MatmulArgs>* matmul = nullptr;
  Operation<LayernormArgs>* layernorm = nullptr;
  Operation<LayernormBackwardArgs>* layernorm_backward = nullptr;
  Operation<GeluArgs>* gelu = nullptr;
  Operation<GeluBackwardArgs>* gelu_backward = nullptr;
  Operation<AttentionArgs>* attention = nullptr;
  Operation<AttentionBackwardArgs>* attention_backward = nullptr;
  Operation<AttentionPagedArgs>* attention_paged = nullptr;
  Operation<EmbeddingArgs>* embedding = nullptr;
  Operation<EmbeddingBackwardArgs>* embedding_backward = nullptr;
  Operation<CrossEntropyArgs>* cross_entropy = nullptr;
  Operation<AddArgs>* add = nullptr;
  Operation<ColumnSumArgs>* column_sum = nullptr;
  Operation<AdamwArgs>* adamw = nullptr;
  Operation<SquareSumArgs>* square_sum = nullptr;
  // Of some models: not every device has them, and a graph that uses one is refused there by name.
  Operation<RmsnormArgs>* rmsnorm = nullptr;
  Operation<RmsnormBackwardArgs>* rmsnorm_backward = nullptr;
  Operation<SwigluArgs>* swiglu = nullptr;
  Operation<SwigluBackwardArgs>* swiglu_backward = nullptr;
  Operation<RotaryArgs>* rotary = nullptr;
  Operation<ReluArgs>* relu = nullptr;
  Operation<ReluBackwardArgs>* relu_backward = nullptr;
  Operation<TanhArgs>* tanh = nullptr;
  Operation<TanhBackwardArgs>* tanh_backward = nullptr;
  Operation<Conv2dArgs>* conv2d = nullptr;
  Operation<Conv2dBackwardArgs>* conv2d_backward = nullptr;
  Operation<BatchnormArgs>* batchnorm = nullptr;
  Operation<BatchnormBackwardArgs>* batchnorm_backward = nullptr;
  Operation<BatchnormStatisticsArgs>* batchnorm_statistics = nullptr;
  Operation<FollowArgs>* follow = nullptr;
  Operation<MaxPool2dArgs>* max_pool2d = nullptr;
  Operation<MaxPool2dBackwardArgs>* max_pool2d_backward = nullptr;
  Operation<MeanPoolArgs>* mean_pool = nullptr;
  Operation<MeanPoolBackwardArgs>* mean_pool_backward = nullptr;
  // Of models that compute in bf16: a device without it has no such products.
  Operation<PackProductArgs>* pack_product = nullptr;
  // For the exchange and its proofs; no model needs them.
  Operation<PackArgs>* pack_bf16 = nullptr;
  Operation<PackArgs>* pack_int8 = nullptr;
  Operation<PackArgs>* pack_top = nullptr;
  Operation<PackCarryingArgs>* pack_int8_carrying = nullptr;
  Operation<UnpackArgs>* unpack_bf16 = nullptr;
  Operation<UnpackArgs>* unpack_int8 = nullptr;
  Operation<UnpackArgs>* unpack_top = nullptr;
  Operation<BlockDigestArgs>* block_digest = nullptr;

  // Names of the empty entries among those that a GPT needs, as without them a device is of no use.
  // What else a model needs is asked of its graph: Executable::missing().
  std::vector<std::string_view> missing() const;
  // Names of all the empty entries that some model needs, those of missing() first.
  std::vector<std::string_view> absent() const;
};

struct Capabilities {
  std::string instruction_set;  // "avx512", "avx2", "portable", "sm_90"
  std::string library;          // "oneDNN 2.6.3", "cuBLASLt 13.0"
  // What else the library and the driver choose by how they compute, where bits follow from that and
  // not every shape can be tried: "132 multiprocessors". Members of a job have this and the two
  // lines above in common then; empty where what was tried is all that counts.
  std::string chooses_by;
  std::uint64_t memory_bytes = 0;  // of the device, in all
  bool host_accessible = false;    // its buffers can be read and written by the CPU
  bool tf32 = false;               // it has products in Precision::tf32
  bool notes_work = false;         // note_work() may give something
  bool forms_groups = false;       // open_group() may give one
  std::size_t staging_piece_bytes = std::size_t{1} << 20;  // of a copy, at a time: staging.hpp
};

// Bytes copied between the host's memory and the device's since the backend was opened.
struct HostTraffic {
  std::uint64_t to_device = 0, to_host = 0;
  bool operator==(const HostTraffic&) const = default;
};

// Work that was queued once, and can be queued again as it was, at the same addresses, in one call.
class NotedWork {
 public:
  virtual ~NotedWork() = default;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const tensor::Device& device() const = 0;
  virtual const Capabilities& capabilities() const = 0;
  virtual const Operations& operations() const = 0;
  virtual std::shared_ptr<tensor::Memory> memory() const = 0;
  // Memory of the host that copies to and from the device run best with: page-locked, where the
  // device can have it so.
  virtual std::shared_ptr<tensor::Memory> staging_memory() const { return tensor::host_memory(); }
  // Nothing where the host has the device's memory.
  virtual HostTraffic host_traffic() const { return {}; }
  // Fails with: internal.
  virtual Result<std::unique_ptr<tensor::Stream>> open_stream() = 0;
  // Copies between host and device memory in the stream's order.
  virtual Result<void> upload(tensor::Stream& stream, ByteView from, void* to) = 0;
  virtual Result<void> download(tensor::Stream& stream, const void* from, MutableByteView to) = 0;
  // Inside the device's memory, in the stream's order; the ranges do not overlap.
  virtual Result<void> copy(tensor::Stream& stream, const void* from, void* to,
                            std::size_t bytes) = 0;
  // Zero bytes.
  virtual Result<void> clear(tensor::Stream& stream, void* to, std::size_t bytes) = 0;
  // An event behind all that is queued on the stream. Fails with: internal.
  virtual Result<std::unique_ptr<tensor::Event>> record(tensor::Stream& stream) = 0;
  // What is queued on the stream from now on runs after what the event stands behind, on whichever
  // stream of this backend that is; the caller does not wait. Fails with: internal.
  virtual Result<void> wait(tensor::Stream& stream, const tensor::Event& event,
                            tensor::WaitSite site = tensor::WaitSite::current()) = 0;
  // What queue() puts on the stream is noted and not done: operations, copies inside the device and
  // clears, no waits. Null: the device does not note this, or queue() failed, and it is to be
  // queued as ever. Fails with: device_lost, internal.
  virtual Result<std::unique_ptr<NotedWork>> note_work(tensor::Stream& stream,
                                                       const std::function<Result<void>()>& queue) {
    return static_cast<void>(stream), static_cast<void>(queue), std::unique_ptr<NotedWork>();
  }
  // Queues it. It must live until it has run. Fails with: internal.
  virtual Result<void> replay(tensor::Stream& stream, const NotedWork& work) {
    static_cast<void>(stream), static_cast<void>(work);
    return {ErrorCode::internal, "this device notes no work"};
  }
  // For a group of this device and others; `between_machines`: also over an open network. Fails
  // with: unsupported (says what is missing).
  virtual Result<std::unique_ptr<DeviceGroup>> open_group(bool between_machines) {
    return static_cast<void>(between_machines),
           Error{ErrorCode::unsupported, "a device of this kind has no groups"};
  }
};

}  // namespace gpunode::ops
