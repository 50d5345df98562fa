// `completion`: the table of commands as a script that completes its words in bash or zsh.
#include <algorithm>
#include <string>
#include <vector>

#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"

namespace gpunode::cli {
namespace {

// What may follow what: a line of the `case` that both shells read alike.
struct Words {
  std::string first;   // commands, and first words of those of two
  std::string groups;  // "token|job|..."
  std::string cases;   // words of each
};

void append(std::string& list, const std::string& word, const char* between) {
  list += (list.empty() ? "" : between) + word;
}

Words words_of_table() {
  Words words;
  std::vector<std::pair<std::string, std::string>> groups;  // and their second words
  for (const Command& command : commands()) {
    const std::size_t blank = command.name.find(' ');
    const std::string head = command.name.substr(0, blank);
    auto group = std::ranges::find(groups, head, &std::pair<std::string, std::string>::first);
    if (group == groups.end()) {
      append(words.first, head, " ");
      group = groups.insert(groups.end(), {head, ""});
    }
    if (blank != std::string::npos) append(group->second, command.name.substr(blank + 1), " ");
    std::string flags;
    for (const Flag& flag : command.flags) flags += flag.name + " ";
    words.cases += "    \"" + command.name + "\") list=\"" + flags + "--help\" ;;\n";
  }
  for (const auto& [group, inner] : groups) {
    if (inner.empty()) continue;
    append(words.groups, group, "|");
    words.cases += "    \"" + group + "\") list=\"" + inner + "\" ;;\n";
  }
  return words;
}

std::string bash_script() {
  const Words words = words_of_table();
  return "# gpunode: completion for bash, made from the table of commands\n"
         "_gpunode() {\n"
         "  local current=\"${COMP_WORDS[COMP_CWORD]}\" list=\"\" command=\"\"\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
         "    list=\"" +
         words.first +
         "\"\n"
         "  else\n"
         "    command=\"${COMP_WORDS[1]}\"\n"
         "    case \"$command\" in " +
         words.groups +
         ")\n"
         "      [ \"$COMP_CWORD\" -gt 2 ] && command=\"$command ${COMP_WORDS[2]}\" ;;\n"
         "    esac\n"
         "    case \"$command\" in\n" +
         words.cases +
         "    esac\n"
         "  fi\n"
         "  COMPREPLY=($(compgen -W \"$list\" -- \"$current\"))\n"
         "  case \"$current\" in -*) ;; *) [ \"$COMP_CWORD\" -gt 1 ] &&\n"
         "    COMPREPLY+=($(compgen -f -- \"$current\")) ;; esac\n"
         "}\n"
         "complete -o filenames -F _gpunode gpunode\n";
}

std::string zsh_script() {
  const Words words = words_of_table();
  return "#compdef gpunode\n"
         "# gpunode: completion for zsh, made from the table of commands\n"
         "_gpunode() {\n"
         "  local list=\"\" command=\"$words[2]\"\n"
         "  if (( CURRENT == 2 )); then\n"
         "    list=\"" +
         words.first +
         "\"\n"
         "  else\n"
         "    case \"$command\" in " +
         words.groups +
         ")\n"
         "      (( CURRENT > 3 )) && command=\"$command $words[3]\" ;;\n"
         "    esac\n"
         "    case \"$command\" in\n" +
         words.cases +
         "    esac\n"
         "  fi\n"
         "  compadd -- ${=list}\n"
         "  [[ \"$PREFIX\" == -* ]] || (( CURRENT == 2 )) || _files\n"
         "}\n"
         "compdef _gpunode gpunode\n";
}

}  // namespace

int run_completion(const Invocation& invocation) {
  const std::string shell = invocation.arguments.text("SHELL");
  if (shell != "bash" && shell != "zsh")
    return fail(invocation,
                {ErrorCode::invalid_argument,
                 "there are scripts for bash and zsh, not for '" + shell + "'"},
                kUsage);
  print(shell == "bash" ? bash_script() : zsh_script());
  return kOk;
}

}  // namespace gpunode::cli
