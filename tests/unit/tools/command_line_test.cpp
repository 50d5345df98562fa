#include "tools/gpunode/command_line.hpp"

#include <gtest/gtest.h>

#include <set>

namespace gpunode::cli {
namespace {

std::string refusal(std::vector<std::string> words) {
  auto parsed = parse_command_line(std::move(words));
  return parsed ? "" : parsed.error().detail;
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(CommandLine, ReadsCommandsOfOneAndTwoWordsWithTheirFlags) {
  auto parsed = parse_command_line({"token", "create", "--ttl", "2h", "--uses=3", "--json"});
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->command->name, "token create");
  EXPECT_EQ(parsed->arguments.text("--ttl"), "2h");
  EXPECT_EQ(*parsed->arguments.whole("--uses", 1, 1, 10), 3u);
  EXPECT_TRUE(parsed->json());
}

TEST(CommandLine, StateAndJsonMayStandBeforeTheCommand) {
  auto parsed = parse_command_line({"--json", "--state", "/tmp/x/", "job", "show", "abc"});
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->command->name, "job show");
  EXPECT_EQ(parsed->state(), "/tmp/x");
  EXPECT_EQ(parsed->arguments.text("JOB"), "abc");
}

TEST(CommandLine, AMistypedCommandOrFlagNamesTheNearest) {
  EXPECT_TRUE(says(refusal({"nods"}), "did you mean 'nodes'"));
  EXPECT_TRUE(says(refusal({"checkpoint", "verfy"}), "did you mean 'verify'"));
  EXPECT_TRUE(says(refusal({"nodes", "--jsn"}), "did you mean '--json'"));
  EXPECT_TRUE(says(refusal({"token"}), "wants one of: create"));
  for (const char* other : {" ls,", "stop, cancel,"})
    EXPECT_TRUE(says(refusal({"job"}), other)) << refusal({"job"});
}

TEST(CommandLine, WordsOfOtherProgramsAreTakenForOurs) {
  for (const auto& [words, name] : {std::pair(std::vector<std::string>{"job", "ls"}, "jobs"),
                                    {{"job", "cancel", "x"}, "job stop"},
                                    {{"status"}, "status"}}) {
    auto parsed = parse_command_line(words);
    ASSERT_TRUE(parsed) << parsed.error().detail;
    EXPECT_EQ(parsed->command->name, name);
  }
  auto up = parse_command_line({"up", "-d"});
  ASSERT_TRUE(up);
  EXPECT_TRUE(up->arguments.has("--detach"));
}

TEST(CommandLine, MissingAndSurplusWordsAreRefused) {
  EXPECT_TRUE(says(refusal({}), "a command is missing"));
  EXPECT_TRUE(says(refusal({"train"}), "wants JOB.toml"));
  EXPECT_TRUE(says(refusal({"jobs", "extra"}), "does not take 'extra'"));
  EXPECT_TRUE(says(refusal({"job", "show", "a", "b"}), "does not take 'b'"));
  EXPECT_TRUE(says(refusal({"up", "--name", "a", "--name", "b"}), "more than once"));
  EXPECT_FALSE(refusal({"token", "create", "--ttl"}).empty());
}

TEST(CommandLine, ATokenIsNeverTakenAsAnArgument) {
  for (std::vector<std::string> words :
       {std::vector<std::string>{"join", "host", "--token", "gpn1_secret"},
        {"join", "host", "--token=gpn1_secret"},
        {"join", "host", "gpn1_secret"},
        {"join", "gpn1_secret"},
        {"join", "host", "--token-file", "gpn1_secret"}}) {
    std::string text = refusal(words);
    EXPECT_TRUE(says(text, "never given as an argument")) << text;
    EXPECT_FALSE(says(text, "gpn1_secret")) << text;
  }
}

TEST(CommandLine, LabelsMayBeRepeated) {
  auto parsed = parse_command_line({"up", "--label", "a=1", "--label", "b"});
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->arguments.all("--label"), (std::vector<std::string>{"a=1", "b"}));
}

TEST(CommandLine, HelpOfACommandWinsOverWhatElseIsThere) {
  auto parsed = parse_command_line({"train", "--help"});
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->command->name, "help");
  EXPECT_EQ(parsed->arguments.text("COMMAND"), "train");
}

TEST(CommandLine, NumbersOutOfBoundsNameTheFlagAndTheBounds) {
  auto parsed = parse_command_line({"token", "create", "--uses", "12x"});
  ASSERT_TRUE(parsed);
  auto uses = parsed->arguments.whole("--uses", 1, 1, 10);
  ASSERT_FALSE(uses);
  EXPECT_TRUE(says(uses.error().detail, "--uses wants a whole number from 1 to 10, not '12x'"));
}

TEST(CommandLine, EveryRowOfTheTableIsCompleteAndNamedOnce) {
  std::set<std::string> names;
  for (const Command& command : commands()) {
    EXPECT_TRUE(names.insert(command.name).second) << command.name;
    EXPECT_FALSE(command.summary.empty()) << command.name;
    EXPECT_NE(command.run, nullptr) << command.name;
    std::set<std::string> flags;
    for (const Flag& flag : command.flags) {
      EXPECT_TRUE(flag.name.starts_with("--")) << flag.name;
      EXPECT_TRUE(flags.insert(flag.name).second) << command.name << " " << flag.name;
      EXPECT_FALSE(flag.text.empty()) << flag.name;
    }
  }
}

}  // namespace
}  // namespace gpunode::cli
