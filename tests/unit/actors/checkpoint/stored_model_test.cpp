// Folders of transformers, whole and wrong; files of ours; and what is said of what does not fit.
#include "actors/checkpoint/stored_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/model/registry.hpp"
#include "runtime/snapshot/safetensors_file.hpp"
#include "tests/support/fault_file_system.hpp"
#include "tests/support/memory_file_system.hpp"

namespace gpunode::checkpoint {
namespace {

using snapshot::ElementType;
using snapshot::TensorEntry;
using ::testing::HasSubstr;

class Stored : public ::testing::Test {
 protected:
  Stored() {
    model_.model = std::move(*model::make_model("gpt", {{"layers", "1"},
                                                        {"heads", "1"},
                                                        {"channels", "4"},
                                                        {"context", "8"},
                                                        {"vocabulary", "9"}}));
    model_.weights.resize(model_.model->parameter_count());
    model_.model->initialise(3, model_.weights);
    EXPECT_TRUE(disk_.create_folder("/hub"));
  }

  // One tensor of each name; every element is `value`.
  struct Tensor {
    std::string name;
    std::vector<std::uint64_t> shape;
    ElementType type = ElementType::f32;
  };
  void write(const std::string& file, const std::vector<Tensor>& tensors) {
    std::vector<TensorEntry> entries;
    for (const Tensor& one : tensors) entries.push_back({one.name, one.type, one.shape, 0, 0});
    const auto header = snapshot::plan_safetensors(entries, {});
    const auto feed = [](const TensorEntry& entry, const snapshot::TensorSink& sink) {
      return sink(Bytes(entry.end - entry.begin, std::byte{0x3c}));  // f16 and bf16 above 0
    };
    ASSERT_TRUE(snapshot::write_safetensors(disk_, header, "/hub/" + file, feed));
  }
  std::vector<Tensor> tensors_of_folder() {
    EXPECT_TRUE(save_for_transformers(disk_, model_, "/hub"));
    std::vector<Tensor> tensors;
    const auto file = snapshot::SafetensorsFile::open(disk_, "/hub/model.safetensors");
    for (const TensorEntry& entry : file->header().tensors)
      tensors.push_back({entry.name, entry.shape, entry.type});
    return tensors;
  }
  std::string refusal() {
    const auto stored = load_stored_model(disk_, "/hub");
    return stored ? "" : stored.error().detail;
  }

  gpunode::testing::MemoryFileSystem disk_;
  StoredModel model_;
};

TEST_F(Stored, ADescriptionThatIsLargerThanItsFileTakesNoMemory) {
  constexpr const char* kHuge = R"({"model_type":"gpt2","n_layer":1000,"n_head":1,"n_embd":65536,)"
                                R"("n_positions":1024,"vocab_size":50257})";
  ASSERT_TRUE(disk_.write_atomic("/hub/config.json", {as_bytes(std::string_view(kHuge))}));
  write("model.safetensors", {});
  EXPECT_THAT(refusal(), HasSubstr("is missing"));

  const auto header = snapshot::plan_safetensors(
      {}, {{"model", "gpt"}, {"model.layers", "1000"}, {"model.channels", "65536"}});
  const auto nothing = [](const auto&, const auto&) { return Result<void>(); };
  ASSERT_TRUE(snapshot::write_safetensors(disk_, header, "/huge", nothing));
  const auto stored = load_stored_model(disk_, "/huge");
  ASSERT_FALSE(stored);
  EXPECT_THAT(stored.error().detail, HasSubstr("parameters"));
}

TEST_F(Stored, ComesBackFromAFolderAndFromAFile) {
  ASSERT_TRUE(save_for_transformers(disk_, model_, "/hub"));
  ASSERT_TRUE(save_model(disk_, model_, "/file"));
  for (const char* path : {"/hub", "/file"}) {
    const auto again = load_stored_model(disk_, path);
    ASSERT_TRUE(again) << again.error().detail;
    EXPECT_EQ(again->weights, model_.weights) << path;
    EXPECT_EQ(again->model->config(), model_.model->config());
  }
}

TEST_F(Stored, NamesATensorThatIsMissingExtraOrOfAnotherShape) {
  auto tensors = tensors_of_folder();
  const auto wte = std::ranges::find(tensors, "transformer.wte.weight", &Tensor::name);
  wte->shape = {4, 9};
  write("model.safetensors", tensors);
  EXPECT_EQ(refusal(),
            "/hub/model.safetensors: transformer.wte.weight has shape [4, 9], its config.json asks "
            "for [9, 4]");
  tensors.erase(wte);
  write("model.safetensors", tensors);
  EXPECT_EQ(refusal(), "/hub: transformer.wte.weight of shape [9, 4] is missing");
  tensors.push_back({"transformer.wte.weight", {9, 4}});
  tensors.push_back({"transformer.h.1.ln_1.bias", {4}});
  write("model.safetensors", tensors);
  EXPECT_THAT(refusal(), HasSubstr("transformer.h.1.ln_1.bias of shape [4] belongs to nothing"));
}

TEST_F(Stored, ReadsOlderNamesOtherTypesAndSeveralFiles) {
  auto tensors = tensors_of_folder();
  for (Tensor& one : tensors) {
    one.name = one.name.substr(std::string("transformer.").size());
    one.type = one.shape.size() == 2 ? ElementType::f16 : ElementType::bf16;
  }
  tensors.push_back({"h.0.attn.bias", {1, 1, 8, 8}, ElementType::u8});  // a mask
  const auto middle = tensors.begin() + 5;
  write("model-1.safetensors", {tensors.begin(), middle});
  write("model-2.safetensors", {middle, tensors.end()});
  ASSERT_TRUE(disk_.remove("/hub/model.safetensors"));
  EXPECT_THAT(refusal(), HasSubstr("safe_serialization=True"));
  const std::string index =
      R"({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}})";
  ASSERT_TRUE(disk_.write_atomic("/hub/model.safetensors.index.json", {as_bytes(index)}));
  const auto again = load_stored_model(disk_, "/hub");
  ASSERT_TRUE(again) << again.error().detail;
  EXPECT_EQ(again->weights.front(), 1.05859375f);     // 0x3c3c as f16
  EXPECT_EQ(again->weights.back(), 0.011474609375f);  // as bf16
}

TEST_F(Stored, IsOfOneConfigThatIsReadOnce) {
  ASSERT_TRUE(save_for_transformers(disk_, model_, "/hub"));
  gpunode::testing::FaultFileSystem counting(disk_);
  const auto stored = load_stored_model(counting, "/hub");
  ASSERT_TRUE(stored) << stored.error().detail;
  EXPECT_EQ(counting.seen(gpunode::testing::FileOperation::open), 2u) << "config and weights";
}

TEST_F(Stored, ComesFromAResnetsTensorsWithAConfigOrWithout) {
  model_.model = std::move(*model::make_model("resnet", {{"height", "6"}, {"width", "5"}}));
  model_.weights.resize(model_.model->parameter_count());
  model_.model->initialise(3, model_.weights);
  ASSERT_TRUE(save_for_transformers(disk_, model_, "/hub"));
  const auto config = disk_.read("/hub/config.json", 1 << 20);
  EXPECT_THAT(std::string(as_text(*config)), HasSubstr("\"input_size\": [\n      1,\n      6,"));
  const auto folder = load_stored_model(disk_, "/hub");
  ASSERT_TRUE(folder) << folder.error().detail;
  EXPECT_EQ(folder->model->config(), model_.model->config());
  EXPECT_EQ(folder->weights, model_.weights);
  const auto file = load_stored_model(disk_, "/hub/model.safetensors", {.image = {6, 5}});
  ASSERT_TRUE(file) << file.error().detail;
  EXPECT_EQ(file->model->config(), model_.model->config());
  EXPECT_EQ(file->weights, model_.weights);
  EXPECT_EQ(load_stored_model(disk_, "/hub/model.safetensors")->model->config().at("height"), "32");
  write("other", {{"lm_head.weight", {3, 4}}});
  const auto other = load_stored_model(disk_, "/hub/other");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::unsupported);
  EXPECT_THAT(other.error().detail, HasSubstr("/hub/other: its tensors are not those of a ResNet"));
}

TEST_F(Stored, RefusesAnIndexThatLeavesTheFolder) {
  tensors_of_folder();
  ASSERT_TRUE(disk_.remove("/hub/model.safetensors"));
  const std::string index = R"({"weight_map": {"a": "../model.safetensors"}})";
  ASSERT_TRUE(disk_.write_atomic("/hub/model.safetensors.index.json", {as_bytes(index)}));
  EXPECT_THAT(refusal(), HasSubstr("the file of a is no name"));
}

}  // namespace
}  // namespace gpunode::checkpoint
