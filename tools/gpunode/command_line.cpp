#include "tools/gpunode/command_line.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>

#include "runtime/base/nearest.hpp"
#include "runtime/security/join_token.hpp"
#include "tools/gpunode/answer.hpp"

namespace gpunode::cli {
namespace {

Error wrong(std::string detail) {
  return {ErrorCode::invalid_argument, std::move(detail)};
}

const Command* find_command(const std::string& name) {
  const auto found = std::ranges::find_if(commands(), [&](const Command& command) {
    return command.name == name || std::ranges::count(command.aliases, name) > 0;
  });
  return found == commands().end() ? nullptr : &*found;
}

// Of a word that is no group none.
std::vector<std::string> words_after(const std::string& group) {
  std::vector<std::string> known;
  const auto add = [&](const std::string& name) {
    if (name.starts_with(group + " ")) known.push_back(name.substr(group.size() + 1));
  };
  for (const Command& command : commands()) {
    add(command.name);
    std::ranges::for_each(command.aliases, add);
  }
  return known;
}

// Takes the command off the front of `words`.
Result<const Command*> take_command(std::vector<std::string>& words) {
  std::string word = words.front();
  words.erase(words.begin());
  if (const std::vector<std::string> known = words_after(word); !known.empty()) {
    if (words.empty() || words.front().starts_with("-"))
      return wrong("'" + word + "' wants one of: " + joined(known));
    std::string second = words.front();
    words.erase(words.begin());
    if (const Command* command = find_command(word + " " + second)) return command;
    return wrong(unknown_word("command after '" + word + "'", second, known));
  }
  if (const Command* command = find_command(word)) return command;
  std::vector<std::string> known;
  for (const Command& command : commands()) known.push_back(command.name);
  return wrong(unknown_word("command", word, known) +
               (nearest_of(word, known).empty() ? "; `gpunode help` explains them" : ""));
}

bool looks_like_token(const std::string& word) {
  return word.find(security::JoinToken::kPrefix) != std::string::npos;
}

Error token_as_argument() {
  return wrong(
      "a token is never given as an argument: other users of this machine could read it in the "
      "list of processes. Use --token-file FILE, --token-file - (standard input) or the "
      "environment variable GPUNODE_TOKEN, and treat this token as known to others");
}

// What CLI11 did not know.
Error surplus(const Command& command, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    std::string name = word.substr(0, word.find('='));
    if (name == "--token" || looks_like_token(word)) return token_as_argument();
  }
  for (const std::string& word : words) {
    if (!word.starts_with("-") || word == "-") continue;
    std::vector<std::string> known;
    for (const Flag& flag : command.flags) known.push_back(flag.name);
    known.push_back("--help");
    return wrong(
        unknown_word("flag of '" + command.name + "'", word.substr(0, word.find('=')), known));
  }
  return wrong("'" + command.name + "' does not take '" + words.front() + "'; `gpunode help " +
               command.name + "` shows what it takes");
}

// Texts of one's own choice alone may be empty.
bool is_free_text(const Command& command, const std::string& flag) {
  return std::ranges::any_of(
      command.flags, [&](const Flag& one) { return one.name == flag && one.value == "TEXT"; });
}

// Parses with an app made from the command's row of the table.
Result<Arguments> parse_arguments(const Command& command, std::vector<std::string> words) {
  CLI::App app;
  app.set_help_flag("");
  app.allow_extras();
  std::map<std::string, std::vector<std::string>> values;
  std::map<std::string, bool> switches{{"--help", false}};
  for (const Flag& flag : command.flags) {
    if (flag.value.empty())
      app.add_flag(flag.letter.empty() ? flag.name : flag.name + "," + flag.letter,
                   switches[flag.name]);
    else
      app.add_option(flag.name, values[flag.name])
          ->expected(1)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
          ->allow_extra_args(false);
  }
  app.add_flag("--help,-h", switches["--help"]);
  for (const Operand& operand : command.operands)
    app.add_option("operand", values[operand.name])
        ->expected(0, CLI::detail::expected_max_vector_size);
  std::reverse(words.begin(), words.end());  // CLI11 wants them so
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return wrong(std::string(error.what()) + "; `gpunode help " + command.name +
                 "` shows what it takes");
  }
  if (std::vector<std::string> extra = app.remaining(); !extra.empty() && !switches["--help"])
    return surplus(command, extra);
  Arguments arguments;
  for (const auto& [name, on] : switches)
    if (on) arguments.add(name, "");
  for (const auto& [name, list] : values)
    for (const std::string& value : list) {
      if (looks_like_token(value)) return token_as_argument();
      if (value.empty() && !is_free_text(command, name))
        return wrong(name + " is given, and empty: is a variable of the shell not set?");
      arguments.add(name, value);
    }
  for (const Operand& operand : command.operands)
    if (std::vector<std::string> given = arguments.all(operand.name); given.size() > 1)
      return surplus(command, {given.begin() + 1, given.end()});
  return arguments;
}

Result<void> check_arguments(const Command& command, const Arguments& arguments) {
  for (const Operand& operand : command.operands)
    if (operand.required && !arguments.has(operand.name))
      return wrong("'" + command.name + "' wants " + operand.name + ": " + operand.text);
  for (const Flag& flag : command.flags)
    if (!flag.repeatable && arguments.all(flag.name).size() > 1)
      return wrong("flag " + flag.name + " is given more than once");
  return {};
}

// --state and --json may stand before the command: moves them behind it.
void move_leading_flags(std::vector<std::string>& words) {
  std::vector<std::string> leading;
  while (!words.empty() && words.front().starts_with("-")) {
    std::string word = words.front();
    if (word == "--help" || word == "-h" || word == "--version") break;
    std::size_t count = word == "--state" && words.size() > 1 ? 2 : 1;
    leading.insert(leading.end(), words.begin(), words.begin() + count);
    words.erase(words.begin(), words.begin() + count);
  }
  words.insert(words.end(), leading.begin(), leading.end());
}

}  // namespace

Result<Invocation> parse_command_line(std::vector<std::string> words) {
  move_leading_flags(words);
  if (words.empty()) return wrong("a command is missing; `gpunode help` lists them");
  if (words.front() == "--help" || words.front() == "-h") words.front() = "help";
  if (words.front() == "--version") words.front() = "version";
  if (words.front().starts_with("-"))
    return wrong("a command is missing before '" + words.front() + "'; `gpunode help` lists them");
  if (words.front() == "help" && words.size() > 2 && !words[1].starts_with("-") &&
      !words[2].starts_with("-")) {
    words[1] += " " + words[2];
    words.erase(words.begin() + 2);
  }
  auto command = take_command(words);
  if (!command) return command.error();
  auto arguments = parse_arguments(**command, std::move(words));
  if (!arguments) return arguments.error();
  Invocation invocation;
  if (arguments->has("--help")) {
    invocation.command = find_command("help");
    invocation.arguments.add("COMMAND", (*command)->name);
    if (arguments->has("--json")) invocation.arguments.add("--json", "");
    return invocation;
  }
  if (auto fine = check_arguments(**command, *arguments); !fine) return fine.error();
  invocation.command = *command;
  invocation.arguments = std::move(*arguments);
  return invocation;
}

}  // namespace gpunode::cli
