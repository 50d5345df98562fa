// Requests with named tensors, their answers, and what a model reads and answers, to and from bytes
// (schemas/infer.fbs). A tensor that was decoded has as many bytes as its shape says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::inference {

enum class TensorKind : std::uint8_t { fp32 = 1, int64 = 2, bytes = 3 };

// Row-major; of bytes each element stands behind its length, 4 bytes.
struct InferTensor {
  std::string name;
  TensorKind kind = TensorKind::fp32;
  std::vector<std::int64_t> shape = {};
  Bytes data = {};
};
struct TensorForm {
  std::string name;
  TensorKind kind = TensorKind::fp32;
  std::vector<std::int64_t> shape = {};  // -1: any
};

struct InferRequest {
  std::vector<InferTensor> inputs;
  std::uint32_t timeout_ms = 30'000;
};
struct InferAnswer {
  std::vector<InferTensor> outputs;
  std::string model_digest;
  std::uint64_t step = 0;
  double seconds = 0;
  std::uint64_t version = 0;  // of the model under its name
};
struct InferDescribe {
  bool probe = false;  // only if it computes
};
struct InferDescription {
  std::string platform;
  std::vector<TensorForm> inputs, outputs;
  std::string model_digest;
  std::uint64_t step = 0;
  std::uint64_t version = 0;
};
using InferMessage = std::variant<InferRequest, InferAnswer, InferDescribe, InferDescription>;

// How many elements; nothing where a dimension is negative, there are more than eight, or it is more
// than memory has.
std::optional<std::size_t> element_count(const std::vector<std::int64_t>& shape);
// Whether the data is what kind and shape say.
bool is_whole(const InferTensor& tensor);

Bytes encode_infer(const InferMessage& message);
// Fails with corrupted; never throws.
Result<InferMessage> decode_infer(ByteView bytes);
// Whether these bytes claim to be such a message.
bool is_infer(ByteView bytes);

}  // namespace gpunode::inference
