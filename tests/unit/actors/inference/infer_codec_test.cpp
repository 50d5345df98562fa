#include "actors/inference/infer_codec.hpp"

#include <gtest/gtest.h>

#include "runtime/base/aligned_copy.hpp"
#include "schemas/infer_generated.h"

namespace gpunode::inference {
namespace {

InferTensor tensor(TensorKind kind, std::vector<std::int64_t> shape, std::size_t bytes) {
  return {"t", kind, std::move(shape), Bytes(bytes)};
}

template <class Message>
Message back(const InferMessage& message) {
  const Bytes bytes = encode_infer(message);
  EXPECT_TRUE(is_infer(bytes));
  const auto decoded = decode_infer(bytes);
  EXPECT_TRUE(decoded) << decoded.error().message();
  EXPECT_EQ(encode_infer(*decoded), bytes);
  return std::get<Message>(*decoded);
}

TEST(InferCodec, MessagesComeBackAsTheyWere) {
  const auto request = back<InferRequest>(InferRequest{{tensor(TensorKind::fp32, {2, 3}, 24)}, 77});
  EXPECT_EQ(request.timeout_ms, 77u);
  EXPECT_EQ(request.inputs.front().shape, (std::vector<std::int64_t>{2, 3}));
  const auto answer =
      back<InferAnswer>(InferAnswer{{tensor(TensorKind::int64, {1}, 8)}, "digest", 5, 0.5});
  EXPECT_EQ(answer.model_digest, "digest");
  EXPECT_EQ(answer.step, 5u);
  EXPECT_FALSE(back<InferDescribe>(InferDescribe{}).probe);
  EXPECT_TRUE(back<InferDescribe>(InferDescribe{.probe = true}).probe);
  const auto told = back<InferDescription>(
      InferDescription{"rows", {{"in", TensorKind::fp32, {-1, 4}}}, {}, "digest", 6});
  EXPECT_EQ(told.inputs.front().shape.front(), -1);
}

// One tensor's bytes, told often, are more memory than was sent.
TEST(InferCodec, TensorsThatLieInOneAnotherAreRefused) {
  const auto message = [](bool shared) {
    flatbuffers::FlatBufferBuilder builder;
    const std::vector<std::uint8_t> bytes(4000);
    const auto one = builder.CreateVector(bytes);
    std::vector<flatbuffers::Offset<wire::infer::Tensor>> tensors;
    for (int at = 0; at < 8; ++at) {
      const auto name = builder.CreateString("n" + std::to_string(at));
      const auto shape = builder.CreateVector(std::vector<std::int64_t>{1000});
      const auto data = shared ? one : builder.CreateVector(bytes);
      tensors.push_back(wire::infer::CreateTensor(
          builder, name, static_cast<std::uint8_t>(TensorKind::fp32), shape, data));
    }
    const auto request = wire::infer::CreateRequest(builder, builder.CreateVector(tensors), 1000);
    builder.Finish(
        wire::infer::CreateEnvelope(builder, wire::infer::Body::Request, request.Union()),
        wire::infer::EnvelopeIdentifier());
    return finished_bytes(builder);
  };
  EXPECT_TRUE(decode_infer(message(false)));
  EXPECT_FALSE(decode_infer(message(true)));
}

TEST(InferCodec, ATensorHasWhatItsShapeSays) {
  EXPECT_TRUE(is_whole(tensor(TensorKind::fp32, {2, 3}, 24)));
  EXPECT_TRUE(is_whole(tensor(TensorKind::fp32, {0, 3}, 0)));
  EXPECT_TRUE(is_whole(tensor(TensorKind::bytes, {2}, 8)));  // two empty ones
  for (const InferTensor& bad :
       {tensor(TensorKind::fp32, {2, 3}, 23), tensor(TensorKind::int64, {2}, 8),
        tensor(TensorKind::fp32, {-1, 3}, 0), tensor(TensorKind::bytes, {3}, 8),
        tensor(TensorKind::bytes, {1}, 8), tensor(TensorKind::fp32, {1l << 62, 1l << 62}, 0),
        tensor(TensorKind::fp32, std::vector<std::int64_t>(9, 1), 4)}) {
    EXPECT_FALSE(is_whole(bad));
    EXPECT_FALSE(decode_infer(encode_infer(InferRequest{{bad}})));
  }
}

TEST(InferCodec, WhatIsDamagedOrOfOthersIsRefused) {
  EXPECT_FALSE(decode_infer({}));
  EXPECT_FALSE(is_infer({}));
  const Bytes good = encode_infer(InferRequest{{tensor(TensorKind::fp32, {2, 3}, 24)}});
  for (std::size_t size = 0; size + 8 < good.size(); ++size)  // the last ones fill up
    EXPECT_FALSE(decode_infer(ByteView(good).first(size))) << size;
  std::vector<InferTensor> many(17, tensor(TensorKind::fp32, {1}, 4));
  EXPECT_FALSE(decode_infer(encode_infer(InferRequest{many})));
}

}  // namespace
}  // namespace gpunode::inference
