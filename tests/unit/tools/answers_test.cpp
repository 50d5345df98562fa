#include "tools/gpunode/answers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tools/gpunode/command.hpp"

namespace gpunode::cli {
namespace {

bool takes_json(const Command& command) {
  return std::ranges::find(command.flags, "--json", &Flag::name) != command.flags.end();
}

// "a" of "a.b", of "a[].b".
std::string holder_of(const std::string& path) {
  const auto dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

TEST(Answers, EveryCommandThatSpeaksJsonSaysWhatAndNoOtherDoes) {
  std::set<std::string> names;
  for (const Command& command : commands()) {
    names.insert(command.name);
    EXPECT_EQ(!answers_of(command.name).empty(), takes_json(command)) << command.name;
  }
  for (const CommandAnswer& answer : command_answers())
    EXPECT_TRUE(names.contains(answer.command)) << answer.command;
}

TEST(Answers, AFormIsAFlagOfItsCommandOrAWordThatItTakes) {
  for (const Command& command : commands())
    for (const CommandAnswer& answer : answers_of(command.name)) {
      const bool flag =
          std::ranges::find(command.flags, answer.with, &Flag::name) != command.flags.end();
      EXPECT_TRUE(answer.with.empty() || flag || !answer.with.starts_with("-")) << command.name;
    }
}

TEST(Answers, EveryFieldHasATypeAMeaningAndAHolder) {
  const std::set<std::string> types = {"text",   "texts", "whole", "number",       "truth",
                                       "object", "list",  "free",  "texts by name"};
  for (const CommandAnswer& answer : command_answers()) {
    std::map<std::string, std::string> seen;
    for (const AnswerField& field : answer.fields) {
      const std::string where = answer.command + ": " + field.path;
      EXPECT_TRUE(types.contains(field.type)) << where << " is " << field.type;
      EXPECT_FALSE(field.text.empty()) << where;
      EXPECT_TRUE(field.unit.empty() || field.type == "whole" || field.type == "number") << where;
      std::string holder = holder_of(field.path);
      const bool in_list = holder.ends_with("[]");
      if (in_list) holder.resize(holder.size() - 2);
      if (!holder.empty()) {
        EXPECT_EQ(seen[holder], in_list ? "list" : "object") << where;
      }
      EXPECT_TRUE(seen.emplace(field.path, field.type).second) << where << " stands twice";
    }
    EXPECT_FALSE(answer.fields.empty()) << answer.command;
  }
}

TEST(Answers, ABlockThatOthersTakeOverStandsAtThePathThatTheyName) {
  const auto answers = parse_answers(
      "= @both\nx | whole bytes | | how much\n\n"
      "= a b --out\n# A line each.\nlist | list | it is there | all\n+ list[] @both\n+ @both\n");
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].command, "a b");
  EXPECT_EQ(answers[0].with, "--out");
  EXPECT_EQ(answers[0].note, "A line each.");
  ASSERT_EQ(answers[0].fields.size(), 3u);
  EXPECT_EQ(answers[0].fields[0].when, "it is there");
  EXPECT_EQ(answers[0].fields[1].path, "list[].x");
  EXPECT_EQ(answers[0].fields[1].unit, "bytes");
  EXPECT_EQ(answers[0].fields[2].path, "x");
}

}  // namespace
}  // namespace gpunode::cli
