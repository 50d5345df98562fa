#include "tools/gpunode/answers.hpp"

#include <algorithm>
#include <map>
#include <sstream>

#include "runtime/base/check.hpp"

namespace gpunode::cli {
namespace {

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(' ');
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

AnswerField field_of(const std::string& line) {
  std::vector<std::string> parts;
  std::istringstream in(line);
  for (std::string part; parts.size() < 3 && std::getline(in, part, '|');)
    parts.push_back(trimmed(part));
  std::string text;
  std::getline(in, text);
  GPUNODE_CHECK(parts.size() == 3 && !in.fail(), "a field has four parts: " + line);
  AnswerField field{parts[0], parts[1], "", parts[2], trimmed(text)};
  // The unit stands behind the type; "texts by name" is a type of three words.
  const auto blank = field.type.find(' ');
  if (blank != std::string::npos && field.type != "texts by name") {
    field.unit = field.type.substr(blank + 1);
    field.type.resize(blank);
  }
  return field;
}

// "job trace --out" is "job trace" with "--out", "help =job" is "help" with "job".
CommandAnswer head_of(const std::string& text) {
  const auto flag = text.find(" -"), word = text.find(" =");
  if (flag != std::string::npos) return {text.substr(0, flag), text.substr(flag + 1), "", {}};
  if (word != std::string::npos) return {text.substr(0, word), text.substr(word + 2), "", {}};
  return {text, "", "", {}};
}

}  // namespace

std::vector<CommandAnswer> parse_answers(const std::string& table) {
  std::vector<CommandAnswer> answers;
  std::map<std::string, std::vector<AnswerField>> shared;
  std::vector<AnswerField>* fields = nullptr;
  std::istringstream in(table);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("= @")) {
      fields = &shared[line.substr(3)];
    } else if (line.starts_with("= ")) {
      fields = &answers.emplace_back(head_of(line.substr(2))).fields;
    } else if (line.starts_with("# ")) {
      answers.back().note = line.substr(2);
    } else if (line.starts_with("+ ")) {
      const auto at = line.find('@');
      const std::string prefix = trimmed(line.substr(2, at - 2));
      for (AnswerField field : shared.at(line.substr(at + 1))) {
        if (!prefix.empty()) field.path.insert(0, prefix + ".");
        fields->push_back(std::move(field));
      }
    } else if (!line.empty()) {
      fields->push_back(field_of(line));
    }
  }
  return answers;
}

const std::vector<CommandAnswer>& command_answers() {
  static const std::vector<CommandAnswer> all = parse_answers(
      std::string(detail::kNodeAnswers) + detail::kJobAnswers + detail::kModelAnswers);
  return all;
}

std::vector<CommandAnswer> answers_of(const std::string& command) {
  std::vector<CommandAnswer> found;
  std::ranges::copy_if(command_answers(), std::back_inserter(found),
                       [&](const CommandAnswer& one) { return one.command == command; });
  return found;
}

}  // namespace gpunode::cli
