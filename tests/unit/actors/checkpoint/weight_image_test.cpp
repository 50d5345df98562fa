// Weights as they answer: made of stored models, written as folders and read back, and what is said of a
// folder that is not what it says.
#include "actors/checkpoint/weight_image.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/model/registry.hpp"
#include "tests/support/memory_file_system.hpp"

namespace gpunode::checkpoint {
namespace {

using ops::WeightFormat;
using ::testing::HasSubstr;

class Image : public ::testing::Test {
 protected:
  Image() {
    model_.model = std::move(*model::make_model("gpt", {{"layers", "1"},
                                                        {"heads", "1"},
                                                        {"channels", "32"},
                                                        {"context", "8"},
                                                        {"vocabulary", "9"}}));
    model_.weights.resize(model_.model->parameter_count());
    model_.model->initialise(3, model_.weights);
    EXPECT_TRUE(save_for_transformers(disk_, model_, "/hub"));
    EXPECT_TRUE(save_model(disk_, model_, "/file"));
    EXPECT_TRUE(disk_.write_atomic("/hub/tokenizer.json", {as_bytes(kTokenizer)}));
  }
  static constexpr std::string_view kTokenizer = "{}";

  Result<WeightImage> load(const storage::Path& path, std::optional<WeightFormat> format) {
    return load_weight_image(disk_, path,
                             {.format = format, .room = [this](std::size_t bytes) {
                                bytes_.assign(bytes, std::byte{0x55});
                                return Result<MutableByteView>(MutableByteView(bytes_));
                              }});
  }
  Result<WeightImage> load_part(const storage::Path& path, std::optional<WeightFormat> format,
                                PartChoice part) {
    return load_weight_image(disk_, path,
                             {.format = format,
                              .room =
                                  [this](std::size_t bytes) {
                                    bytes_.assign(bytes, std::byte{0x55});
                                    return Result<MutableByteView>(MutableByteView(bytes_));
                                  },
                              .part = part});
  }
  std::string refusal(const storage::Path& path, std::optional<WeightFormat> format = {}) {
    const auto loaded = load(path, format);
    return loaded ? "" : loaded.error().message();
  }
  void quantise(WeightFormat format) {
    const auto image = load("/hub", format);
    ASSERT_TRUE(image);
    ASSERT_TRUE(save_weight_image(disk_, *image, bytes_, "/small"));
  }

  gpunode::testing::MemoryFileSystem disk_;
  StoredModel model_;
  Bytes bytes_;
};

TEST_F(Image, OfFp32IsTheFlatVector) {
  for (const char* path : {"/hub", "/file"}) {
    const auto image = load(path, {});
    ASSERT_TRUE(image) << image.error().message();
    EXPECT_EQ(image->layout.format, WeightFormat::fp32);
    EXPECT_EQ(bytes_, to_bytes(std::as_bytes(std::span(model_.weights))));
    EXPECT_EQ(image->content->image_pieces(), 1u);
    EXPECT_EQ(image->content->pieces[0], storage::sha256_of(bytes_));
  }
}

TEST_F(Image, AContentNamesTheModelBeforeItsBytesAreThere) {
  const auto image = load("/hub", WeightFormat::int8);
  ASSERT_TRUE(image);
  const auto same = image_of(image->content, *image->texts);
  ASSERT_TRUE(same) << same.error().message();
  EXPECT_EQ(same->model->name(), image->model->name());
  EXPECT_EQ(same->layout.bytes, bytes_.size());
  EXPECT_EQ(same->text.tokenizer, kTokenizer);
  const auto refused = [&](const auto& change, std::vector<TextFile> texts) {
    auto other = std::make_shared<ModelContent>(*image->content);
    change(*other);
    const auto made = image_of(std::move(other), std::move(texts));
    return made ? "" : made.error().message();
  };
  EXPECT_THAT(refused([](ModelContent& one) { ++one.image_bytes; }, {}), HasSubstr("takes"));
  EXPECT_THAT(refused([](ModelContent& one) { one.kind = "nothing"; }, {}), HasSubstr("nothing"));
  EXPECT_THAT(refused([](ModelContent&) {}, {{"../config.json", "{}"}}), HasSubstr("has no file"));
  EXPECT_THAT(refused([](ModelContent&) {}, {{"config.json", "{"}}), HasSubstr("no JSON"));
}

TEST_F(Image, IsTheSameWhateverItIsMadeOf) {
  for (const WeightFormat format : ops::kWeightFormats) {
    ASSERT_TRUE(load("/hub", format));
    const Bytes of_folder = bytes_;
    ASSERT_TRUE(load("/file", format));
    EXPECT_EQ(bytes_, of_folder) << ops::to_string(format);
  }
}

TEST_F(Image, OfAPartHasItsWeightsAloneAndTheContentOfAll) {
  for (const WeightFormat format : ops::kWeightFormats) {
    quantise(format);
    for (const char* path : {"/hub", "/small"}) {
      const auto whole = load(path, format);
      ASSERT_TRUE(whole);
      const Bytes all = bytes_;
      for (std::size_t number = 0; number < 3; ++number) {
        const auto part = load_part(path, format, {number, 3});
        ASSERT_TRUE(part) << part.error().message();
        EXPECT_EQ(*part->content, *whole->content);
        EXPECT_EQ(part->layout.bytes, bytes_.size());
        EXPECT_LT(bytes_.size(), all.size());
        for (std::size_t at = 0; at < part->layout.places.size(); ++at) {
          const model::WeightLayout::Place& mine = part->layout.places[at];
          if (mine.bytes == 0) continue;
          const model::WeightLayout::Place& there = whole->layout.places[at];
          EXPECT_TRUE(std::ranges::equal(ByteView(bytes_).subspan(mine.first, mine.bytes),
                                         ByteView(all).subspan(there.first, there.bytes)));
        }
      }
    }
    EXPECT_TRUE(disk_.remove("/small"));
  }
  EXPECT_EQ(load_part("/hub", {}, {0, 60}).error().code, ErrorCode::invalid_argument);
}

TEST(ImagePieces, AreThoseOfTheWholeImage) {
  Bytes image(2 * ModelContent::kPieceBytes + 100);
  for (std::size_t at = 0; at < image.size(); ++at) image[at] = static_cast<std::byte>(at * 7 >> 3);
  const auto zeros = std::span(image).subspan(5'000'000, 9000);
  std::ranges::fill(zeros, std::byte{0});
  ModelContent content;
  describe_bytes(content, {}, image);
  ImagePieces pieces;
  for (const auto& [first, end] : {std::pair<std::size_t, std::size_t>(0, 10),
                                   {10, 4'200'000},
                                   {4'200'000, 5'000'000},
                                   {5'009'000, image.size()}})
    pieces.add(first, ByteView(image).subspan(first, end - first));
  EXPECT_EQ(pieces.finish(image.size()), content.pieces);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, ModelContent::kPieceBytes}) {
    describe_bytes(content, {}, Bytes(size));
    EXPECT_EQ(ImagePieces().finish(size), content.pieces);
  }
}

TEST_F(Image, ComesBackFromItsFolder) {
  for (const WeightFormat format : ops::kWeightFormats) {
    quantise(format);
    const Bytes was = bytes_;
    const auto image = load("/small", {});
    ASSERT_TRUE(image) << image.error().message();
    EXPECT_EQ(bytes_, was);
    EXPECT_EQ(image->layout.format, format);
    EXPECT_EQ(image->model->name(), model_.model->name());
    EXPECT_EQ(image->text.tokenizer, kTokenizer);
    EXPECT_TRUE(load("/small", format)) << "what it is in may be asked for";
    EXPECT_TRUE(disk_.remove("/small"));
  }
}

TEST_F(Image, NamesTheParameterThatNoFormatHolds) {
  model_.weights[5] = std::numeric_limits<float>::infinity();
  ASSERT_TRUE(save_for_transformers(disk_, model_, "/hub"));
  EXPECT_THAT(refusal("/hub", WeightFormat::int8), HasSubstr("token_table: a weight is no finite"));
  EXPECT_EQ(refusal("/hub", WeightFormat::bf16), "");
}

TEST_F(Image, OfAFolderInAnotherFormatIsRefused) {
  quantise(WeightFormat::int8);
  EXPECT_THAT(refusal("/small", WeightFormat::int4), HasSubstr("holds the model in int8"));
}

TEST_F(Image, ThatWasDamagedIsRefused) {
  quantise(WeightFormat::int4);
  Bytes file = *disk_.read("/small/packed.safetensors", 1 << 20);
  file.back() ^= std::byte{1};
  ASSERT_TRUE(disk_.write_atomic("/small/packed.safetensors", {file}));
  EXPECT_THAT(refusal("/small"), HasSubstr("not the digest"));
  file.resize(file.size() - 1);
  ASSERT_TRUE(disk_.write_atomic("/small/packed.safetensors", {file}));
  EXPECT_NE(refusal("/small"), "");
}

TEST_F(Image, ThatSaysItIsAnotherModelTakesNoMemory) {
  quantise(WeightFormat::int8);
  Bytes file = *disk_.read("/small/packed.safetensors", 1 << 20);
  std::string text(as_text(file));
  const std::size_t at = text.find("\"model.vocabulary\":\"9\"");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 22, "\"model.vocabulary\":\"8\"");
  ASSERT_TRUE(disk_.write_atomic("/small/packed.safetensors", {as_bytes(std::string_view(text))}));
  EXPECT_THAT(refusal("/small"), HasSubstr("token_table has another shape"));
}

TEST_F(Image, IsNotWrittenOverAnything) {
  quantise(WeightFormat::int8);
  const auto image = load("/hub", WeightFormat::int8);
  const auto again = save_weight_image(disk_, *image, bytes_, "/small");
  EXPECT_EQ(again.error().code, ErrorCode::already_exists);
}

}  // namespace
}  // namespace gpunode::checkpoint
