#include "tools/gpunode/answer.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tools/gpunode/command.hpp"
#include "tools/gpunode/tables.hpp"

namespace gpunode::cli {
namespace {

using nlohmann::json;

// Forges a second line, clears the screen by either kind of escape and turns what follows.
const std::string kHostile =
    "n1\nnode9 is up\x1b[2J\xC2\x9B"
    "2J\u202E";
constexpr const char* kHarmless = "n1 node9 is up\uFFFD[2J\uFFFD2J\uFFFD";

Answer hostile_answer() {
  return {{{"nodes",
            {{{"name", kHostile},
              {"id", kHostile},
              {"health", kHostile},
              {"labels", {{kHostile, kHostile}}},
              {"health_report", {{"drained", {{{"subject", kHostile}, {"reason", kHostile}}}}}}}}}},
          std::nullopt,
          kOk};
}

class Said : public ::testing::Test {
 protected:
  template <class Action>
  void say(Action action) {
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    action();
    out = ::testing::internal::GetCapturedStdout();
    err = ::testing::internal::GetCapturedStderr();
  }
  static bool is_harmless(const std::string& text) {
    for (const char* bad : {"\x1b", "\x9B", "\u202E"})
      if (text.find(bad) != std::string::npos) return false;
    return true;
  }
  Invocation text, as_json = [] {
    Invocation invocation;
    invocation.arguments.add("--json", "");
    return invocation;
  }();
  std::string out, err;
};

TEST_F(Said, whatANodeIsCalledForgesNoRowAndMovesNoCursor) {
  say([&] { tell(text, hostile_answer(), nodes_text); });
  EXPECT_TRUE(is_harmless(out)) << out;
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 3) << out;  // head, row, what is drained
  EXPECT_NE(out.find(std::string("\n") + kHarmless + "  "), std::string::npos) << out;
}

TEST_F(Said, asJsonItIsToldWholeToAProgramAndNothingToATerminal) {
  say([&] { tell(as_json, hostile_answer(), nodes_text); });
  EXPECT_TRUE(is_harmless(out)) << out;
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1);
  EXPECT_EQ(json::parse(out)["nodes"][0]["name"], kHostile);
  say([&] { print_json({{"reason", kHostile}}, Error{ErrorCode::internal, kHostile}); });
  EXPECT_TRUE(is_harmless(out)) << out;
  EXPECT_EQ(json::parse(out)["error"]["detail"], kHostile);
}

TEST_F(Said, aReasonOfAPeerIsOneLine) {
  say([&] { fail(text, Error{ErrorCode::internal, kHostile}); });
  EXPECT_EQ(err, std::string("gpunode: ") + kHarmless + "\n");
  say([&] { fail(as_json, Error{ErrorCode::internal, kHostile}); });
  EXPECT_TRUE(is_harmless(out)) << out;
  say([&] { warn(kHostile); });
  EXPECT_EQ(err, std::string("gpunode: warning: ") + kHarmless + "\n");
}

TEST_F(Said, aTextOfManyLinesKeepsThem) {
  say([&] { tell_lines(text, {{{"text", "a\n\tb\x1b[2J"}}, std::nullopt, kOk}, "text"); });
  EXPECT_EQ(out, "a\n\tb\uFFFD[2J\n");
}

}  // namespace
}  // namespace gpunode::cli
