// What nodes ask each other of a model, and what it is made of, as bytes.
#include "actors/inference/copy_codec.hpp"

#include <gtest/gtest.h>

namespace gpunode::inference {
namespace {

using checkpoint::ModelContent;
using checkpoint::TextFile;

ModelContent content(std::size_t image_bytes) {
  ModelContent made{.kind = "gpt", .settings = {{"layers", "2"}}, .step = 7};
  checkpoint::describe_bytes(made, {{"config.json", "{}"}, {"tokenizer.json", "abc"}},
                             Bytes(image_bytes, std::byte{3}));
  return made;
}

TEST(CopyCodec, MessagesComeBackAsTheyWere) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{5}, ModelContent::kPieceBytes,
                                  2 * ModelContent::kPieceBytes + 1}) {
    const ModelContent made = content(bytes);
    const auto back = decode_copy(encode_copy(made));
    ASSERT_TRUE(back);
    EXPECT_EQ(std::get<ModelContent>(*back), made);
    EXPECT_EQ(std::get<ModelContent>(*back).digest(), made.digest());
  }
  for (const std::optional<std::size_t> piece : {std::optional<std::size_t>(), {0}, {77}}) {
    const auto back = decode_copy(encode_copy(CopyAsk{storage::sha256_of({}), piece}));
    ASSERT_TRUE(back);
    EXPECT_EQ(std::get<CopyAsk>(*back).piece, piece);
    EXPECT_EQ(std::get<CopyAsk>(*back).digest, storage::sha256_of({}));
  }
}

TEST(CopyCodec, PiecesCoverWhatThereIs) {
  const auto refuses = [](const auto& change) {
    ModelContent made = content(ModelContent::kPieceBytes + 1);
    change(made);
    return !decode_copy(encode_copy(made));
  };
  EXPECT_FALSE(refuses([](ModelContent&) {}));
  EXPECT_TRUE(refuses([](ModelContent& made) { made.pieces.pop_back(); }));
  EXPECT_TRUE(refuses([](ModelContent& made) { made.pieces.emplace_back(); }));
  EXPECT_TRUE(refuses([](ModelContent& made) { made.image_bytes = ~std::uint64_t{0}; }));
  EXPECT_TRUE(refuses([](ModelContent& made) { made.texts[0].bytes = ~std::uint64_t{0}; }));
  EXPECT_TRUE(refuses([](ModelContent& made) {
    made.texts[0].bytes = std::uint64_t{1} << 63;
    made.texts[1].bytes = std::uint64_t{1} << 63;
  }));
}

TEST(CopyCodec, WhatIsDamagedIsRefused) {
  EXPECT_FALSE(decode_copy({}));
  const Bytes good = encode_copy(content(5));
  for (std::size_t size = 0; size + 8 < good.size(); ++size)
    EXPECT_FALSE(decode_copy(ByteView(good).first(size))) << size;
}

TEST(ModelContent, EveryPartIsInTheDigest) {
  const ModelContent made = content(9);
  std::set<storage::Sha256> digests{made.digest()};
  const auto changed = [&](const auto& change) {
    ModelContent other = content(9);
    change(other);
    return digests.insert(other.digest()).second;
  };
  EXPECT_TRUE(changed([](ModelContent& one) { one.kind = "gps"; }));
  EXPECT_TRUE(changed([](ModelContent& one) { one.settings["layers"] = "3"; }));
  EXPECT_TRUE(changed([](ModelContent& one) { one.settings = {{"layer", "s2"}}; }));
  EXPECT_TRUE(changed([](ModelContent& one) { one.format = ops::WeightFormat::int8; }));
  EXPECT_TRUE(changed([](ModelContent& one) { one.step = 8; }));
  EXPECT_TRUE(changed([](ModelContent& one) { one.texts[0].name = "config.jso"; }));
  EXPECT_TRUE(changed([](ModelContent& one) {
    one.texts[0].bytes = 3;
    one.texts[1].bytes = 2;
  }));
  EXPECT_TRUE(changed([](ModelContent& one) { one.pieces[0] = {}; }));
  EXPECT_TRUE(changed([](ModelContent& one) { one.pieces[1] = {}; }));
  EXPECT_TRUE(changed([](ModelContent& one) { one.image_bytes = 8; }));
  EXPECT_EQ(made.image_digest(), content(9).image_digest());
  EXPECT_NE(made.image_digest(), content(10).image_digest());
}

TEST(ModelContent, TextsComeBackFromTheirBytes) {
  const std::vector<TextFile> texts{{"config.json", "{}"}, {"tokenizer.json", "abc"}};
  const ModelContent made = content(9);
  const auto back = texts_in(made, checkpoint::joined(texts));
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, texts);
  EXPECT_FALSE(texts_in(made, "{}ab"));
}

}  // namespace
}  // namespace gpunode::inference
