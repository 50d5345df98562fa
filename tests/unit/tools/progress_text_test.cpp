#include "tools/gpunode/progress_text.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace gpunode::cli {
namespace {

TEST(ProgressText, SaysThatAJobValidatesAfterItsLastStep) {
  const auto text = [](int step) {
    const nlohmann::json progress = {{"phase", "running"}, {"step", step}, {"steps", 20}};
    return progress_text(progress);
  };
  EXPECT_EQ(text(19), "step 19/20");
  EXPECT_EQ(text(20), "last step done, validating and saving  step 20/20");
}

}  // namespace
}  // namespace gpunode::cli
