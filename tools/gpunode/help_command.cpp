// `help` and `completion`: the table of commands as text, JSON, Markdown and a shell script.
#include <algorithm>

#include "runtime/base/nearest.hpp"
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/text.hpp"

namespace gpunode::cli {
namespace {

using nlohmann::json;

constexpr const char* kExitCodes =
    "Exit codes: 0 done, 1 it failed (the cause and what to try are on standard error), 2 wrong "
    "usage,\n3 no node runs with that state directory.\n";

std::string usage_of(const Command& command) {
  std::string usage = "gpunode " + command.name;
  for (const Operand& operand : command.operands)
    usage += operand.required ? " " + operand.name : " [" + operand.name + "]";
  if (!command.flags.empty()) usage += " [flags]";
  return usage;
}

std::string spelled(const Flag& flag) {
  return flag.name + (flag.value.empty() ? "" : " " + flag.value);
}

// Breaks a text at blanks.
std::string wrapped(const std::string& text, std::size_t width) {
  std::string out, line;
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t end = std::min(text.find(' ', at), text.size());
    std::string word = text.substr(at, end - at);
    if (!line.empty() && line.size() + 1 + word.size() > width) {
      out += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    at = end + 1;
  }
  return out + line + "\n";
}

std::string help_of(const Command& command) {
  std::string out = "usage: " + usage_of(command) + "\n\n" + command.summary + "\n";
  if (!command.details.empty()) out += "\n" + wrapped(command.details, 90);
  std::vector<std::vector<std::string>> rows;
  for (const Operand& operand : command.operands)
    rows.push_back({"  " + operand.name, operand.text});
  for (const Flag& flag : command.flags)
    rows.push_back({"  " + spelled(flag), flag.text + (flag.repeatable ? " (repeatable)" : "")});
  if (!rows.empty()) out += "\n" + aligned(rows);
  return out;
}

std::string overview() {
  std::string out =
      "gpunode: train and serve models on a cluster of machines without a special node\n\n"
      "usage: gpunode COMMAND [flags]\n\n";
  std::vector<std::vector<std::string>> rows;
  for (const Command& command : commands()) rows.push_back({"  " + command.name, command.summary});
  return out + aligned(rows) + "\n`gpunode help COMMAND` explains one. " + kExitCodes;
}

json description() {
  json list = json::array();
  for (const Command& command : commands()) {
    json operands = json::array();
    for (const Operand& operand : command.operands)
      operands.push_back(
          {{"name", operand.name}, {"text", operand.text}, {"required", operand.required}});
    json flags = json::array();
    for (const Flag& flag : command.flags)
      flags.push_back({{"name", flag.name},
                       {"value", flag.value},
                       {"text", flag.text},
                       {"repeatable", flag.repeatable}});
    list.push_back({{"name", command.name},
                    {"usage", usage_of(command)},
                    {"summary", command.summary},
                    {"details", command.details},
                    {"operands", operands},
                    {"flags", flags}});
  }
  return {{"commands", list},
          {"exit_codes", {{"0", "done"}, {"1", "failed"}, {"2", "wrong usage"}, {"3", "no node"}}}};
}

std::string markdown() {
  std::string out = "# gpunode: commands\n\n" + std::string(kExitCodes) + "\n";
  for (const Command& command : commands()) {
    out += "## `" + usage_of(command) + "`\n\n" + command.summary + ". " + command.details + "\n\n";
    for (const Operand& operand : command.operands)
      out += "- `" + operand.name + "`: " + operand.text + "\n";
    for (const Flag& flag : command.flags) out += "- `" + spelled(flag) + "`: " + flag.text + "\n";
    out += "\n";
  }
  return out;
}

std::string bash_script() {
  std::string first, cases;
  std::vector<std::string> groups;
  for (const Command& command : commands()) {
    std::size_t blank = command.name.find(' ');
    std::string head = command.name.substr(0, blank);
    if (std::find(groups.begin(), groups.end(), head) == groups.end()) {
      groups.push_back(head);
      first += (first.empty() ? "" : " ") + head;
    }
    std::string flags;
    for (const Flag& flag : command.flags) flags += flag.name + " ";
    cases += "    \"" + command.name + "\") words=\"" + flags + "--help\" ;;\n";
  }
  for (const std::string& group : groups) {
    std::string inner;
    for (const Command& command : commands())
      if (command.name.starts_with(group + " "))
        inner += (inner.empty() ? "" : " ") + command.name.substr(group.size() + 1);
    if (!inner.empty()) cases += "    \"" + group + "\") words=\"" + inner + "\" ;;\n";
  }
  return "# gpunode: completion for bash, made from the table of commands\n"
         "_gpunode() {\n"
         "  local current=\"${COMP_WORDS[COMP_CWORD]}\" words=\"\" command=\"\"\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
         "    words=\"" +
         first +
         "\"\n"
         "  else\n"
         "    command=\"${COMP_WORDS[1]}\"\n"
         "    case \"$command\" in token|job|checkpoint)\n"
         "      [ \"$COMP_CWORD\" -gt 2 ] && command=\"$command ${COMP_WORDS[2]}\" ;;\n"
         "    esac\n"
         "    case \"$command\" in\n" +
         cases +
         "    esac\n"
         "  fi\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "  case \"$current\" in -*) ;; *) [ \"$COMP_CWORD\" -gt 1 ] &&\n"
         "    COMPREPLY+=($(compgen -f -- \"$current\")) ;; esac\n"
         "}\n"
         "complete -o filenames -F _gpunode gpunode\n";
}

}  // namespace

int run_help(const Invocation& invocation) {
  if (invocation.json()) {
    print_json(description());
    return kOk;
  }
  if (invocation.arguments.has("--markdown")) {
    print(markdown());
    return kOk;
  }
  std::string wanted = invocation.arguments.text("COMMAND");
  if (wanted.empty()) {
    print(overview());
    return kOk;
  }
  std::string out;
  std::vector<std::string> known;
  for (const Command& command : commands()) {
    known.push_back(command.name);
    if (command.name == wanted || command.name.starts_with(wanted + " "))
      out += (out.empty() ? "" : "\n") + help_of(command);
  }
  if (out.empty())
    return fail(invocation, {ErrorCode::invalid_argument, unknown_word("command", wanted, known)},
                kUsage);
  print(out);
  return kOk;
}

int run_completion(const Invocation& invocation) {
  std::string shell = invocation.arguments.text("SHELL");
  if (shell != "bash")
    return fail(
        invocation,
        {ErrorCode::invalid_argument, "there is a script for bash only, not for '" + shell + "'"},
        kUsage);
  print(bash_script());
  return kOk;
}

}  // namespace gpunode::cli
