#include "actors/inference/generate_codec.hpp"

#include <gtest/gtest.h>

#include "runtime/base/aligned_copy.hpp"
#include "schemas/generate_generated.h"

namespace gpunode::inference {
namespace {

TEST(GenerateCodec, carries_bytes_that_are_no_text) {
  GenerateRequest request;
  request.prompt = std::string("a\0\xff", 3);
  request.seed = 9;
  request.top_p = 0.5;
  request.min_p = 0.25;
  request.presence_penalty = -1;
  request.frequency_penalty = 1.5;
  request.repetition_penalty = 1.25;
  request.stop = {"\n\n", "User:"};
  request.priority = 7;
  request.whole_prompt = true;
  request.chat = R"({"messages":[]})";
  request.prompt_tokens = {0, 50256, 7};
  request.echo = true;
  request.likely = 20;
  request.form = R"({"type": "json_object"})";
  auto back = decode_generate(encode(GenerateMessage(request)));
  ASSERT_TRUE(back);
  EXPECT_EQ(encode(*back), encode(GenerateMessage(request)));
  EXPECT_EQ(std::get<GenerateRequest>(*back).stop, request.stop);
  EXPECT_EQ(std::get<GenerateRequest>(*back).frequency_penalty, 1.5);
  EXPECT_EQ(std::get<GenerateRequest>(*back).prompt, request.prompt);
  EXPECT_EQ(std::get<GenerateRequest>(*back).seed, 9u);
  EXPECT_EQ(std::get<GenerateRequest>(*back).priority, 7u);
  EXPECT_EQ(std::get<GenerateRequest>(*back).chat, request.chat);
  EXPECT_TRUE(std::get<GenerateRequest>(*back).whole_prompt);
  EXPECT_EQ(std::get<GenerateRequest>(*back).prompt_tokens, request.prompt_tokens);
  EXPECT_TRUE(std::get<GenerateRequest>(*back).echo);
  EXPECT_EQ(std::get<GenerateRequest>(*back).likely, 20u);
  EXPECT_EQ(std::get<GenerateRequest>(*back).form, request.form);
  EXPECT_FALSE(std::get<GenerateRequest>(*decode_generate(encode(GenerateRequest{}))).likely);
}

std::vector<TokenReport> reports() {
  return {{.token = {"a", {}}, .likely = {}, .place = 3},
          {.token = {"\xe2", -0.5f}, .likely = {{"", -0.25f}, {"bc", 0.0f}}, .place = 4}};
}

TEST(GenerateCodec, carries_what_is_told_of_tokens) {
  const auto expect_them = [](const std::vector<TokenReport>& told) {
    ASSERT_EQ(told.size(), 2u);
    EXPECT_EQ(told[0].token.bytes, "a");
    EXPECT_FALSE(told[0].token.log_probability);
    EXPECT_EQ(told[0].place, 3u);
    EXPECT_EQ(told[1].token.bytes, "\xe2");
    EXPECT_EQ(told[1].token.log_probability, -0.5f);
    ASSERT_EQ(told[1].likely.size(), 2u);
    EXPECT_EQ(told[1].likely[0].bytes, "");
    EXPECT_EQ(told[1].likely[1].bytes, "bc");
    EXPECT_EQ(told[1].likely[1].log_probability, 0.0f);
  };
  const auto piece = decode_generate(encode(GeneratePiece{7, 3, "more", 9, reports()}));
  ASSERT_TRUE(piece);
  EXPECT_EQ(std::get<GeneratePiece>(*piece).first_report, 9u);
  expect_them(std::get<GeneratePiece>(*piece).reports);
  const auto answer =
      decode_generate(encode(GenerateAnswer{"text", 4, "length", "abc", 7, 0.5, 3, reports()}));
  ASSERT_TRUE(answer);
  expect_them(std::get<GenerateAnswer>(*answer).reports);
}

TEST(GenerateCodec, refuses_reports_that_make_no_sense) {
  for (const float wrong : {0.5f, -std::numeric_limits<float>::infinity()}) {
    GeneratePiece piece{1, 0, "a", 0, reports()};
    piece.reports[1].likely[0].log_probability = wrong;
    EXPECT_FALSE(decode_generate(encode(piece))) << wrong;
  }
  GeneratePiece many{1, 0, "a", 0, reports()};
  many.reports[0].likely.resize(21);
  EXPECT_FALSE(decode_generate(encode(many)));
}

TEST(GenerateCodec, carries_pieces) {
  const auto back = decode_generate(encode(GeneratePiece{7, 3, "more"}));
  ASSERT_TRUE(back);
  const auto& piece = std::get<GeneratePiece>(*back);
  EXPECT_EQ(piece.stream, 7u);
  EXPECT_EQ(piece.offset, 3u);
  EXPECT_EQ(piece.text, "more");
}

TEST(GenerateCodec, refuses_requests_out_of_range) {
  GenerateRequest request;
  request.max_tokens = 1u << 20;
  EXPECT_FALSE(decode_generate(encode(GenerateMessage(request))));
  request.max_tokens = 1;
  request.temperature = -1;
  EXPECT_FALSE(decode_generate(encode(GenerateMessage(request))));
  request.temperature = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(decode_generate(encode(GenerateMessage(request))));
  for (double GenerateRequest::*field :
       {&GenerateRequest::top_p, &GenerateRequest::min_p, &GenerateRequest::presence_penalty,
        &GenerateRequest::frequency_penalty, &GenerateRequest::repetition_penalty}) {
    request = {};
    EXPECT_TRUE(decode_generate(encode(GenerateMessage(request))));
    request.*field = 1000;
    EXPECT_FALSE(decode_generate(encode(GenerateMessage(request))));
  }
  request = {};
  request.likely = 21;
  EXPECT_FALSE(decode_generate(encode(GenerateMessage(request))));
  request = {};
  request.stop.assign(17, "x");
  EXPECT_FALSE(decode_generate(encode(GenerateMessage(request))));
  request.stop = {std::string(1025, 'x')};
  EXPECT_FALSE(decode_generate(encode(GenerateMessage(request))));
  request = {};
  request.priority = 101;
  EXPECT_FALSE(decode_generate(encode(GenerateMessage(request))));
}

// One sequence, told often, is more memory than was sent.
TEST(GenerateCodec, refuses_stops_that_lie_in_one_another) {
  const auto message = [](std::size_t times, bool shared) {
    flatbuffers::FlatBufferBuilder builder;
    const std::string text(1000, 'x');
    std::vector<flatbuffers::Offset<flatbuffers::String>> stops;
    for (std::size_t at = 0; at < times; ++at)
      stops.push_back(shared && at > 0 ? stops[0] : builder.CreateString(text));
    const auto all = builder.CreateVector(stops);
    wire::generate::RequestBuilder request(builder);
    request.add_stop(all);
    const auto body = request.Finish();
    builder.Finish(
        wire::generate::CreateEnvelope(builder, wire::generate::Body::Request, body.Union()),
        wire::generate::EnvelopeIdentifier());
    return finished_bytes(builder);
  };
  EXPECT_TRUE(decode_generate(message(16, false)));
  EXPECT_FALSE(decode_generate(message(16, true)));
  EXPECT_FALSE(decode_generate(message(100'000, true)));
}

TEST(GenerateCodec, survives_every_truncation_and_flipped_bit) {
  Bytes good =
      encode(GenerateMessage(GenerateAnswer{"text", 4, "length", "abc", 7, 0.5, 3, reports()}));
  ASSERT_TRUE(decode_generate(good));
  for (std::size_t size = 0; size < good.size(); ++size)
    (void)decode_generate(ByteView(good).first(size));
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    Bytes flipped = good;
    flipped[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    (void)decode_generate(flipped);
  }
}

}  // namespace
}  // namespace gpunode::inference
