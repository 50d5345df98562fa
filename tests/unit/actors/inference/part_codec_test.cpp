// What a head and the parts of its model say to each other, as bytes; and a part's name.
#include "actors/inference/part_codec.hpp"

#include <gtest/gtest.h>

#include "actors/inference/part_name.hpp"
#include "runtime/base/aligned_copy.hpp"
#include "schemas/model_part_generated.h"

namespace gpunode::inference {
namespace {

const PartName kName{storage::sha256_of({}), 1, 3};

PartPass pass() {
  return {.part = kName,
          .life = 0xfedcba9876543210,
          .rows = {.tokens = {},
                   .positions = {3, -4, 5},
                   .texts = {0, 1, 1},
                   .pages = {7, 8, 9, 1 << 30},
                   .chosen = {2}},
          .values = {0.5f, -1e30f, 3, 4, 5, 6}};
}

TEST(PartCodec, MessagesComeBackAsTheyWere) {
  const PartOpen open{.part = kName,
                      .head = 5,
                      .first_stage = 3,
                      .end_stage = 6,
                      .extents = {.texts = 16, .rows = 256, .pages = 4096}};
  const auto opened = decode_part(encode_part(open));
  ASSERT_TRUE(opened);
  const auto& back = std::get<PartOpen>(*opened);
  EXPECT_EQ(back.part, kName);
  EXPECT_EQ(back.head, 5u);
  EXPECT_EQ(back.first_stage, 3u);
  EXPECT_EQ(back.end_stage, 6u);
  EXPECT_EQ(back.extents, open.extents);
  EXPECT_EQ(std::get<PartOpened>(*decode_part(encode_part(PartOpened{9}))).life, 9u);
  const PartClose close{kName, 9};
  const auto closed = std::get<PartClose>(*decode_part(encode_part(close)));
  EXPECT_EQ(closed.part, close.part);
  EXPECT_EQ(closed.life, 9u);

  const PartPass made = pass();
  const auto passed = decode_part(encode_part(made));
  ASSERT_TRUE(passed);
  const auto& rows = std::get<PartPass>(*passed);
  EXPECT_EQ(rows.part, kName);
  EXPECT_EQ(rows.life, made.life);
  EXPECT_EQ(rows.rows.positions, made.rows.positions);
  EXPECT_EQ(rows.rows.texts, made.rows.texts);
  EXPECT_EQ(rows.rows.pages, made.rows.pages);
  EXPECT_EQ(rows.rows.chosen, made.rows.chosen);
  EXPECT_EQ(rows.values, made.values);
  EXPECT_EQ(std::get<PartValues>(*decode_part(encode_part(PartValues{made.values}))).values,
            made.values);
}

TEST(PartCodec, WhatIsDamagedIsRefused) {
  EXPECT_FALSE(decode_part({}));
  const Bytes good = encode_part(pass());
  for (std::size_t size = 0; size + 8 < good.size(); ++size)
    EXPECT_FALSE(decode_part(ByteView(good).first(size))) << size;
  EXPECT_FALSE(decode_part(Bytes(18u << 20)));
}

// One list, told five times, is five times the memory that was sent.
TEST(PartCodec, ListsThatLieInOneAnotherAreRefused) {
  const auto message = [](bool shared) {
    flatbuffers::FlatBufferBuilder builder;
    const wire::model_part::Name name({}, 1, 3);
    const std::vector<std::int32_t> many(1000);
    const auto one = builder.CreateVector(many);
    const auto list = [&] { return shared ? one : builder.CreateVector(many); };
    const auto positions = list(), texts = list(), pages = list(), chosen = list();
    const auto values = builder.CreateVector(std::vector<float>(1000));
    const auto pass =
        wire::model_part::CreatePass(builder, &name, 1, positions, texts, pages, chosen, values);
    builder.Finish(
        wire::model_part::CreateEnvelope(builder, wire::model_part::Body::Pass, pass.Union()),
        wire::model_part::EnvelopeIdentifier());
    return finished_bytes(builder);
  };
  EXPECT_TRUE(decode_part(message(false)));
  EXPECT_FALSE(decode_part(message(true)));
}

TEST(PartCodec, PartsThatCannotBeAreRefused) {
  for (const auto& [number, of] : {std::pair(0u, 0u), {3u, 3u}, {64u, 65u}, {~0u, ~0u}}) {
    PartPass made = pass();
    made.part.number = number;
    made.part.of = of;
    EXPECT_FALSE(decode_part(encode_part(made))) << number << "/" << of;
    EXPECT_FALSE(decode_part(encode_part(PartOpen{.part = made.part})));
  }
}

TEST(PartName, IsReadAsItIsWritten) {
  for (const char* text : {"1/1", "2/3", "64/64"}) {
    const auto part = part_of_text(text);
    ASSERT_TRUE(part) << text;
    EXPECT_EQ(text_of(*part), text);
  }
  for (const char* text : {"", "1", "/", "1/", "/2", "0/2", "3/2", "1/65", "-1/2", "1/2 ", "a/b",
                           "1/2/3", "99999999999999999999/2", "+1/2"})
    EXPECT_FALSE(part_of_text(text)) << text;
}

TEST(PartName, IsServedAsTheModelWhereItIsTheFirst) {
  EXPECT_EQ(served_name("big", {0, 3}), "big");
  EXPECT_EQ(served_name("big", {1, 3}), "big/2/3");
  EXPECT_FALSE(names_part("big"));
  EXPECT_TRUE(names_part("big/2/3"));
  EXPECT_EQ(model_of("big/2/3"), "big");
  EXPECT_EQ(model_of("big"), "big");
}

}  // namespace
}  // namespace gpunode::inference
