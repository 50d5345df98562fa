// `bench compute`: what it counts is the graph's, what it measures is more than nothing, and what it
// cannot do it says.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tools/gpunode/command.hpp"

namespace gpunode::cli {
namespace {

int run(std::vector<std::string> words, std::string& out, std::string& err) {
  words.insert(words.begin(), {"gpunode", "bench", "compute"});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const int status = run_program(static_cast<int>(argv.size()), argv.data(), {});
  out = ::testing::internal::GetCapturedStdout();
  err = ::testing::internal::GetCapturedStderr();
  return status;
}

TEST(BenchCompute, TellsEachOperationOnceWithItsCallsAndItsCost) {
  std::string out, err;
  ASSERT_EQ(run({"--model", "small-gpt", "--ops", "add_layernorm,slice", "--threads", "2",
                 "--seconds", "0", "--json"},
                out, err),
            kOk)
      << err;
  const auto answer = nlohmann::json::parse(out);
  const auto& model = answer["models"][0];
  ASSERT_EQ(model["operations"].size(), 1u) << model;
  const auto& norm = model["operations"][0];
  constexpr int kRows = 3 * 64, kElements = kRows * 128;  // samples, context, channels
  EXPECT_EQ(norm["calls"], 8);  // two a layer; the last norm is one of them, the first has no sum
  EXPECT_EQ(norm["flops"], 8 * kElements);
  EXPECT_EQ(norm["bytes"], 4 * (4 * kElements + 2 * 128 + 2 * kRows));
  EXPECT_GT(norm["seconds"], 0);
  EXPECT_GT(norm["of_copy_bandwidth"], 0);
  ASSERT_EQ(model["slice"].size(), 3u);
  EXPECT_EQ(model["slice"][2]["flops"].get<double>(),
            model["slice"][0]["flops"].get<double>() + model["slice"][1]["flops"].get<double>());
  EXPECT_GT(answer["peak_flops_per_second"], 0);
}

TEST(BenchCompute, SaysWhatItCannotDo) {
  std::string out, err;
  EXPECT_EQ(run({"--ops", "adding"}, out, err), kUsage);
  EXPECT_NE(err.find("no operation 'adding'"), std::string::npos) << err;
  EXPECT_EQ(run({"--model", "gpt5"}, out, err), kUsage);
  EXPECT_NE(err.find("gpt2-124m"), std::string::npos) << err;
  EXPECT_EQ(run({"--device", "tpu"}, out, err), kUsage);
  EXPECT_EQ(run({"--device", "cuda:999"}, out, err), kFailed) << "no machine has so many";
  EXPECT_NE(err.find("GPU"), std::string::npos) << err;
}

}  // namespace
}  // namespace gpunode::cli
