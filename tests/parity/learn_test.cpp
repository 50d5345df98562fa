// Learning is real: the small GPT on tinyshakespeare, in process, reaches the bar. Two
// minutes or so on two idle cores; label learn.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/registry.hpp"
#include "tools/bench/local_trainer.hpp"

namespace gpunode {
namespace {

// Beside the checkout, or beside the checkout's parent for a worktree.
std::filesystem::path text_file() {
  std::filesystem::path folder = GPUNODE_SOURCE_DIR;
  for (int level = 0; level < 3; ++level, folder = folder.parent_path()) {
    const auto file = folder.parent_path() / "shared/data/tinyshakespeare.txt";
    if (std::filesystem::exists(file)) return file;
  }
  return {};
}

TEST(Learning, ReachesTheBarOnTinyshakespeare) {
  const auto file = text_file();
  if (file.empty()) GTEST_SKIP() << "../shared/data/tinyshakespeare.txt is not there";
  std::ifstream stream(file, std::ios::binary);
  const std::vector<std::uint8_t> text{std::istreambuf_iterator<char>(stream), {}};
  const std::size_t held_out = text.size() / 10;
  const auto train = std::span(text).first(text.size() - held_out);
  const auto rest = std::span(text).last(held_out);

  auto model = model::make_model("gpt", {});
  ASSERT_TRUE(model);
  auto backend = cpu::open_backend();
  auto trainer = bench::LocalTrainer::open(**model, *backend, {});
  ASSERT_TRUE(trainer);
  for (std::uint64_t step = 1; step <= 2000; ++step) {
    auto report = (*trainer)->step(step, train);
    ASSERT_TRUE(report) << report.error().message();
    ASSERT_FALSE(report->outcome.skipped);
    if (step % 250 == 0)
      std::printf("step %4d  loss %.3f  norm %.2f\n", static_cast<int>(step), report->loss,
                  report->outcome.gradient_norm);
  }
  auto loss = (*trainer)->evaluate(rest);
  ASSERT_TRUE(loss);
  std::printf("held-out loss %.4f nats a byte over %zu bytes\n", *loss, rest.size());
  EXPECT_LE(*loss, 1.90);
}

}  // namespace
}  // namespace gpunode
