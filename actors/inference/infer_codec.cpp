#include "actors/inference/infer_codec.hpp"

#include "runtime/base/aligned_copy.hpp"
#include "runtime/base/wire_vector.hpp"
#include "schemas/infer_generated.h"

namespace gpunode::inference {

namespace wire = gpunode::wire::infer;

namespace {

constexpr std::size_t kLimitBytes = 8u << 20, kMostTensors = 16, kMostDimensions = 8;
constexpr std::size_t kLongestName = 256;
using Builder = flatbuffers::FlatBufferBuilder;

std::optional<TensorKind> kind_of(std::uint8_t number) {
  if (number < 1 || number > 3) return {};
  return static_cast<TensorKind>(number);
}

// Whether bytes are so many elements, each behind its length.
bool are_elements(ByteView data, std::size_t count) {
  for (; count > 0; --count) {
    std::uint32_t size = 0;
    if (data.size() < sizeof size) return false;
    std::memcpy(&size, data.data(), sizeof size);
    data = data.subspan(sizeof size);
    if (data.size() < size) return false;
    data = data.subspan(size);
  }
  return data.empty();
}

auto written(Builder& builder, const std::vector<InferTensor>& tensors) {
  std::vector<flatbuffers::Offset<wire::Tensor>> all;
  for (const InferTensor& one : tensors) {
    const auto name = builder.CreateString(one.name);
    const auto shape = builder.CreateVector(one.shape);
    const auto data = builder.CreateVector(reinterpret_cast<const std::uint8_t*>(one.data.data()),
                                           one.data.size());
    all.push_back(
        wire::CreateTensor(builder, name, static_cast<std::uint8_t>(one.kind), shape, data));
  }
  return builder.CreateVector(all);
}

auto written(Builder& builder, const std::vector<TensorForm>& forms) {
  std::vector<flatbuffers::Offset<wire::Form>> all;
  for (const TensorForm& one : forms) {
    const auto name = builder.CreateString(one.name);
    all.push_back(wire::CreateForm(builder, name, static_cast<std::uint8_t>(one.kind),
                                   builder.CreateVector(one.shape)));
  }
  return builder.CreateVector(all);
}

std::vector<std::int64_t> shape_of(const flatbuffers::Vector<std::int64_t>* shape) {
  return shape ? std::vector<std::int64_t>(shape->begin(), shape->end())
               : std::vector<std::int64_t>();
}

// What a tensor and its form have in common; false: they are none, or lie in one another and would take more
// memory than was sent.
template <class To, class From>
bool read_form(const From* from, WireBudget& budget, To& to) {
  const auto kind = kind_of(from->kind());
  if (from->name() && !budget.take(from->name()->size())) return false;
  to.name = flatbuffers::GetString(from->name());
  if (!kind || to.name.size() > kLongestName) return false;
  if (from->shape() && from->shape()->size() > kMostDimensions) return false;
  to.kind = *kind;
  to.shape = shape_of(from->shape());
  return true;
}

template <class To, class From>
bool read_all(const flatbuffers::Vector<flatbuffers::Offset<From>>* from, WireBudget& budget,
              std::vector<To>& to) {
  if (!from) return true;
  if (from->size() > kMostTensors) return false;
  for (const From* one : *from) {
    To made;
    if (!read_form(one, budget, made)) return false;
    if constexpr (std::is_same_v<To, InferTensor>) {
      if (const auto* data = one->data()) {
        if (!budget.take(data->size())) return false;
        made.data = to_bytes({reinterpret_cast<const std::byte*>(data->data()), data->size()});
      }
      if (!is_whole(made)) return false;
    }
    to.push_back(std::move(made));
  }
  return true;
}

}  // namespace

std::optional<std::size_t> element_count(const std::vector<std::int64_t>& shape) {
  if (shape.size() > kMostDimensions) return {};
  std::size_t count = 1;
  for (const std::int64_t size : shape) {
    if (size < 0 || (size > 0 && count > (std::size_t{1} << 40) / static_cast<std::size_t>(size)))
      return {};
    count *= static_cast<std::size_t>(size);
  }
  return count;
}

bool is_whole(const InferTensor& tensor) {
  const auto count = element_count(tensor.shape);
  if (!count) return false;
  if (tensor.kind == TensorKind::bytes) return are_elements(tensor.data, *count);
  return tensor.data.size() == *count * (tensor.kind == TensorKind::fp32 ? 4 : 8);
}

Bytes encode_infer(const InferMessage& message) {
  Builder builder(1024);
  flatbuffers::Offset<void> body;
  auto kind = wire::Body::Request;
  if (const auto* request = std::get_if<InferRequest>(&message)) {
    const auto inputs = written(builder, request->inputs);
    body = wire::CreateRequest(builder, inputs, request->timeout_ms).Union();
  } else if (const auto* answer = std::get_if<InferAnswer>(&message)) {
    kind = wire::Body::Answer;
    const auto outputs = written(builder, answer->outputs);
    const auto digest = builder.CreateString(answer->model_digest);
    body =
        wire::CreateAnswer(builder, outputs, digest, answer->step, answer->seconds, answer->version)
            .Union();
  } else if (const auto* told = std::get_if<InferDescription>(&message)) {
    kind = wire::Body::Description;
    const auto platform = builder.CreateString(told->platform);
    const auto inputs = written(builder, told->inputs), outputs = written(builder, told->outputs);
    const auto digest = builder.CreateString(told->model_digest);
    body = wire::CreateDescription(builder, platform, inputs, outputs, digest, told->step,
                                   told->version)
               .Union();
  } else {
    kind = wire::Body::Describe;
    body = wire::CreateDescribe(builder, std::get<InferDescribe>(message).probe).Union();
  }
  builder.Finish(wire::CreateEnvelope(builder, kind, body), wire::EnvelopeIdentifier());
  return finished_bytes(builder);
}

bool is_infer(ByteView bytes) {
  return bytes.size() >= 8 &&
         flatbuffers::BufferHasIdentifier(bytes.data(), wire::EnvelopeIdentifier());
}

Result<InferMessage> decode_infer(ByteView bytes) {
  const Error corrupted{ErrorCode::corrupted, "no request with tensors, nor its answer"};
  if (bytes.size() > kLimitBytes || bytes.size() < 8) return corrupted;
  AlignedCopy copy(bytes);
  flatbuffers::Verifier verifier(copy.data(), copy.size(), 8, 128);
  if (!wire::VerifyEnvelopeBuffer(verifier)) return corrupted;
  const wire::Envelope* envelope = wire::GetEnvelope(copy.data());
  WireBudget budget(bytes.size());
  if (const auto* in = envelope->body_as_Request()) {
    InferRequest out{.inputs = {}, .timeout_ms = in->timeout_ms()};
    if (!read_all(in->inputs(), budget, out.inputs)) return corrupted;
    return InferMessage(std::move(out));
  }
  if (const auto* in = envelope->body_as_Answer()) {
    InferAnswer out{
        {}, flatbuffers::GetString(in->model_digest()), in->step(), in->seconds(), in->version()};
    if (!read_all(in->outputs(), budget, out.outputs)) return corrupted;
    return InferMessage(std::move(out));
  }
  if (const auto* in = envelope->body_as_Describe())
    return InferMessage(InferDescribe{.probe = in->probe()});
  const auto* in = envelope->body_as_Description();
  if (!in) return corrupted;
  InferDescription out{flatbuffers::GetString(in->platform()),     {},         {},
                       flatbuffers::GetString(in->model_digest()), in->step(), in->version()};
  if (!read_all(in->inputs(), budget, out.inputs) || !read_all(in->outputs(), budget, out.outputs))
    return corrupted;
  return InferMessage(std::move(out));
}

}  // namespace gpunode::inference
