// What stands in a config.json and in the names of tensors, and what of it is refused. The arithmetic
// is held against transformers' and torchvision's own in tests/peers.
#include "kernels/model/hub_weights.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "kernels/model/registry.hpp"

namespace gpunode::model {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Model> made(const char* kind, const Settings& settings) {
  auto model = make_model(kind, settings);
  EXPECT_TRUE(model) << model.error().detail;
  return std::move(*model);
}

std::unique_ptr<Model> small_llama(const char* biased = "0", const char* tied = "0") {
  return made("llama", {{"layers", "2"},
                        {"heads", "4"},
                        {"kv_heads", "2"},
                        {"channels", "16"},
                        {"hidden", "24"},
                        {"attention_bias", biased},
                        {"tied", tied},
                        {"epsilon", "1e-06"}});
}

std::unique_ptr<Model> small_resnet() {
  return made("resnet", {{"height", "12"},
                         {"width", "10"},
                         {"channels", "3"},
                         {"classes", "7"},
                         {"groups", "3"},
                         {"blocks", "2"},
                         {"filters", "4"},
                         {"stem", "7"}});
}

HubShapes shapes_of(const Model& model) {
  HubShapes shapes;
  const auto tensors = *hub_tensors(model);
  for (const HubTensor& tensor : tensors) shapes[tensor.name] = tensor.shape;
  return shapes;
}

HubConfig llama_config() {
  return {{"model_type", std::string("llama")},     {"num_hidden_layers", std::int64_t{2}},
          {"num_attention_heads", std::int64_t{4}}, {"hidden_size", std::int64_t{32}},
          {"intermediate_size", std::int64_t{64}},  {"max_position_embeddings", std::int64_t{4096}},
          {"vocab_size", std::int64_t{32000}},      {"rms_norm_eps", 1e-5}};
}

TEST(HubWeights, EveryTensorHasItsPlaceAndComesBackFromIt) {
  std::vector<std::unique_ptr<Model>> models;
  models.push_back(made("gpt", {{"layers", "2"}, {"channels", "16"}, {"context", "8"}}));
  models.push_back(small_llama());
  models.push_back(small_llama("1", "1"));
  models.push_back(small_resnet());
  for (const auto& model : models) {
    const auto tensors = hub_tensors(*model);
    ASSERT_TRUE(tensors) << tensors.error().detail;
    std::vector<float> ours(model->parameter_count()), back(ours.size(), -1);
    std::iota(ours.begin(), ours.end(), 0.0f);
    for (const HubTensor& tensor : *tensors) {
      std::vector<float> theirs(tensor.element_count());
      to_hub(tensor, ours, theirs);
      from_hub(tensor, theirs, back);
    }
    EXPECT_EQ(ours, back) << model->name();
  }
}

TEST(HubWeights, QueriesKeysAndValuesAreRowsOfOurs) {
  const auto tensors = *hub_tensors(*small_llama());
  const auto find = [&](std::string_view name) {
    return *std::ranges::find(tensors, name, &HubTensor::name);
  };
  const HubTensor queries = find("model.layers.1.self_attn.q_proj.weight");
  const HubTensor keys = find("model.layers.1.self_attn.k_proj.weight");
  const HubTensor values = find("model.layers.1.self_attn.v_proj.weight");
  EXPECT_EQ(queries.shape, (std::vector<std::int64_t>{16, 16}));
  EXPECT_EQ(keys.shape, (std::vector<std::int64_t>{8, 16}));
  EXPECT_EQ(keys.first, queries.first + 256);
  EXPECT_EQ(values.first, keys.first + 128);
  EXPECT_EQ(keys.parameter, "blocks.1.attention.weight");
  EXPECT_EQ(std::ranges::count(tensors, "lm_head.weight", &HubTensor::name), 1);
}

TEST(HubWeights, ProductsOfGpt2AreTurned) {
  const auto model = made("gpt", {{"layers", "1"}, {"heads", "1"}, {"channels", "2"}});
  const auto tensors = *hub_tensors(*model);
  const auto tensor =
      *std::ranges::find(tensors, "transformer.h.0.attn.c_attn.weight", &HubTensor::name);
  EXPECT_EQ(tensor.shape, (std::vector<std::int64_t>{2, 6}));
  EXPECT_EQ(tensor.others, std::vector<std::string>{"h.0.attn.c_attn.weight"});
  std::vector<float> ours(model->parameter_count()), theirs(12);
  std::iota(theirs.begin(), theirs.end(), 0.0f);
  from_hub(tensor, theirs, ours);
  const std::vector<float> rows(ours.begin() + static_cast<std::ptrdiff_t>(tensor.first),
                                ours.begin() + static_cast<std::ptrdiff_t>(tensor.first + 12));
  EXPECT_EQ(rows, (std::vector<float>{0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11}));
}

TEST(HubWeights, WindowsOfConvolutionsHaveTheirChannelsFirst) {
  const auto model = made("resnet", {{"channels", "2"}, {"filters", "3"}});
  const auto tensors = *hub_tensors(*model);
  const HubTensor tensor = tensors.front();
  EXPECT_EQ(tensor.name, "conv1.weight");
  EXPECT_EQ(tensor.shape, (std::vector<std::int64_t>{3, 2, 3, 3}));
  std::vector<float> ours(model->parameter_count()), theirs(54);
  std::iota(theirs.begin(), theirs.end(), 0.0f);
  from_hub(tensor, theirs, ours);
  // Of the second filter, the first pixels of the window.
  EXPECT_EQ(std::vector<float>(ours.begin() + 18, ours.begin() + 24),
            (std::vector<float>{18, 27, 19, 28, 20, 29}));
}

TEST(HubWeights, AResnetIsDescribedByItsTensors) {
  const auto model = small_resnet();
  const HubShapes shapes = shapes_of(*model);
  EXPECT_TRUE(shapes.contains("layer3.1.bn2.running_var"));
  EXPECT_TRUE(hub_passes_over(*model, "layer1.0.bn1.num_batches_tracked"));
  EXPECT_FALSE(hub_passes_over(*model, "layer4.0.conv1.weight"));
  const auto config = hub_config_of(*model);
  ASSERT_TRUE(config) << config.error().detail;
  EXPECT_EQ(std::get<std::string>(config->at("architecture")), "resnet14");
  EXPECT_EQ(std::get<std::int64_t>(config->at("num_features")), 16);
  EXPECT_FALSE(config->contains("model_type"));
  EXPECT_EQ(model_of_shapes(shapes, *config)->settings, model->config());
  EXPECT_EQ(model_of_shapes(shapes, {}, {12, 10})->settings, model->config());
  EXPECT_EQ(model_of_shapes(shapes)->settings.at("height"), "224");
  const auto narrow = model_of_shapes(shapes_of(*made("resnet", {})));
  EXPECT_EQ(narrow->settings.at("stem"), "3");
  EXPECT_EQ(narrow->settings.at("width"), "32");
}

TEST(HubWeights, RefusesResnetsThatItDoesNotCompute) {
  const auto refusal = [](const HubShapes& shapes) {
    const auto described = model_of_shapes(shapes);
    return described ? "" : described.error().detail;
  };
  const HubShapes whole = shapes_of(*small_resnet());
  EXPECT_EQ(refusal(whole), "");
  EXPECT_THAT(refusal({{"lm_head.weight", {3, 4}}}), HasSubstr("conv1.weight is missing"));
  HubShapes shapes = whole;
  shapes["layer1.0.conv3.weight"] = {16, 4, 1, 1};
  EXPECT_THAT(refusal(shapes), HasSubstr("three convolutions"));
  shapes = whole;
  shapes["layer2.2.conv1.weight"] = {8, 8, 3, 3};
  EXPECT_THAT(refusal(shapes), HasSubstr("layer2 has 3 blocks and layer1 2"));
  shapes = whole;
  shapes["conv1.weight"] = {4, 3};
  EXPECT_THAT(refusal(shapes), HasSubstr("conv1.weight has 2 extents, not 4"));
  shapes = whole;
  shapes.erase("layer1.0.conv1.weight");
  EXPECT_THAT(refusal(shapes), HasSubstr("layer1.0.conv1.weight is missing"));
}

TEST(HubWeights, AConfigThatWeWriteDescribesTheModel) {
  for (const char* biased : {"0", "1"})
    for (const char* tied : {"0", "1"}) {
      const auto model = small_llama(biased, tied);
      const auto config = hub_config_of(*model);
      ASSERT_TRUE(config);
      EXPECT_EQ(std::get<std::string>(config->at("model_type")),
                std::string(biased) == "1" ? "qwen2" : "llama");
      const auto again = model_of_hub(*config);
      ASSERT_TRUE(again) << again.error().detail;
      EXPECT_EQ(again->settings, model->config());
    }
  const auto gpt = made("gpt", {{"expansion", "3"}, {"vocabulary", "50257"}});
  EXPECT_EQ(model_of_hub(*hub_config_of(*gpt))->settings, gpt->config());
  const auto mlp = made("mlp", {{"features", "3"}, {"classes", "2"}});
  EXPECT_THAT(hub_config_of(*mlp).error().detail, HasSubstr("kind 'mlp'"));
}

TEST(HubWeights, WhatIsAbsentIsWhatTransformersTakesForIt) {
  const auto gpt = model_of_hub({{"model_type", std::string("gpt2")}});
  ASSERT_TRUE(gpt) << gpt.error().detail;
  EXPECT_EQ(gpt->settings.at("vocabulary"), "50257");
  const auto llama = model_of_hub(llama_config(), 64);
  ASSERT_TRUE(llama) << llama.error().detail;
  EXPECT_EQ(llama->settings.at("kv_heads"), "4");
  EXPECT_EQ(llama->settings.at("theta"), "10000");
  EXPECT_EQ(llama->settings.at("context"), "64");
  EXPECT_EQ(llama->settings.at("epsilon"), "1e-05");
}

TEST(HubWeights, RefusesByNameWhatItDoesNotCompute) {
  struct Case {
    const char* key;
    HubValue value;
    const char* words;
  };
  for (const Case& one : {
           Case{"hidden_act", std::string("gelu"), "hidden_act = gelu, but models of kind llama"},
           Case{"rope_scaling.rope_type", std::string("llama3"), "rope_scaling.rope_type = llama3"},
           Case{"head_dim", std::int64_t{64}, "head_dim = 64"},
           Case{"attention_bias", true, "output projection"},
           Case{"vocab_size", std::string("many"), "vocab_size = many is no whole number"},
           Case{"model_type", std::string("mamba"),
                "model_type 'mamba' is not known here; known "
                "are gpt2, llama"},
           Case{"rope_theta", 10000.5, "rope_theta = 10000.5 is no whole number"},
       }) {
    HubConfig config = llama_config();
    config[one.key] = one.value;
    const auto model = model_of_hub(config);
    ASSERT_FALSE(model) << one.key;
    EXPECT_THAT(model.error().detail, HasSubstr(one.words));
  }
  HubConfig mistral = llama_config();
  mistral["model_type"] = std::string("mistral");
  mistral["sliding_window"] = std::int64_t{1024};
  EXPECT_THAT(model_of_hub(mistral).error().detail, HasSubstr("1024 others only"));
  EXPECT_TRUE(model_of_hub(mistral, 1024));
  HubConfig missing = llama_config();
  missing.erase("hidden_size");
  EXPECT_THAT(model_of_hub(missing).error().detail, HasSubstr("hidden_size is missing"));
  EXPECT_THAT(model_of_hub({{"model_type", std::string("gpt2")}}, 64).error().detail,
              HasSubstr("the context stays 1024"));
}

}  // namespace
}  // namespace gpunode::model
