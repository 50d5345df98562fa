// `help`: the table of commands and the job file as text, JSON and Markdown.
#include <algorithm>

#include "kernels/model/registry.hpp"
#include "runtime/base/nearest.hpp"
#include "runtime/job/job_spec.hpp"
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/answers.hpp"
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
  return flag.name + (flag.letter.empty() ? "" : ", " + flag.letter) +
         (flag.value.empty() ? "" : " " + flag.value);
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
  std::string out = "usage: " + usage_of(command) + "\n";
  for (const std::string& alias : command.aliases) out += "also:  gpunode " + alias + "\n";
  out += "\n" + command.summary + "\n";
  if (!command.details.empty()) out += "\n" + wrapped(command.details, 90);
  std::vector<std::vector<std::string>> rows;
  for (const Operand& operand : command.operands)
    rows.push_back({"  " + operand.name, operand.text});
  for (const Flag& flag : command.flags)
    rows.push_back({"  " + spelled(flag), flag.text + (flag.repeatable ? " (repeatable)" : "")});
  if (!rows.empty()) out += "\n" + aligned(rows);
  return out;
}

// "whole number of bytes", "text (the job runs here)"
std::string kind_of(const AnswerField& field) {
  return field.type + (field.unit.empty() ? "" : ", " + field.unit);
}
std::string meaning_of(const AnswerField& field) {
  return field.text + (field.when.empty() ? "" : " (when: " + field.when + ")");
}

// The fields of its answers with --json.
std::string answers_text(const Command& command) {
  std::string out;
  for (const CommandAnswer& answer : answers_of(command.name)) {
    out += "\nanswer with --json" + (answer.with.empty() ? "" : " and " + answer.with) + ":\n";
    if (!answer.note.empty()) out += wrapped(answer.note, 90);
    std::vector<std::vector<std::string>> rows;
    for (const AnswerField& field : answer.fields)
      rows.push_back({"  " + field.path, kind_of(field), meaning_of(field)});
    out += aligned(rows);
  }
  return out;
}

json answers_json(const Command& command) {
  json answers = json::array();
  for (const CommandAnswer& answer : answers_of(command.name)) {
    json fields = json::array();
    for (const AnswerField& field : answer.fields)
      fields.push_back({{"path", field.path},
                        {"type", field.type},
                        {"unit", field.unit},
                        {"when", field.when},
                        {"text", field.text}});
    answers.push_back({{"with", answer.with}, {"note", answer.note}, {"fields", fields}});
  }
  return answers;
}

std::string answers_markdown(const Command& command) {
  std::string out;
  for (const CommandAnswer& answer : answers_of(command.name)) {
    out += "\nAnswer with `--json`" + (answer.with.empty() ? "" : " and `" + answer.with + "`") +
           (answer.note.empty() ? ":" : ": " + answer.note) + "\n\n";
    for (const AnswerField& field : answer.fields)
      out += "- `" + field.path + "` (" + kind_of(field) + "): " + meaning_of(field) + "\n";
  }
  return out;
}

std::string overview() {
  std::string out =
      "gpunode: train and serve models on a cluster of machines without a special node\n\n"
      "usage: gpunode COMMAND [flags]\n\n";
  std::vector<std::vector<std::string>> rows;
  for (const Command& command : commands()) rows.push_back({"  " + command.name, command.summary});
  return out + aligned(rows) +
         "\n`gpunode help COMMAND` explains one, `gpunode help job` the job file too. " +
         kExitCodes;
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
                       {"letter", flag.letter},
                       {"repeatable", flag.repeatable}});
    list.push_back({{"name", command.name},
                    {"usage", usage_of(command)},
                    {"aliases", command.aliases},
                    {"summary", command.summary},
                    {"details", command.details},
                    {"operands", operands},
                    {"flags", flags},
                    {"answers", answers_json(command)}});
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
    out += answers_markdown(command) + "\n";
  }
  return out;
}

// What a model of a kind has in [model], and the values of one that says nothing.
std::vector<job::SettingText> model_texts(const std::string& kind) {
  std::vector<job::SettingText> texts;
  const auto made = model::make_model(kind, {});
  if (!made) return texts;  // it wants something said
  for (const auto& [key, value] : (*made)->config()) texts.push_back({key, "", value, ""});
  return texts;
}

json job_file_json() {
  json keys = json::array(), kinds = json::object();
  for (const job::SettingText& one : job::setting_texts())
    keys.push_back(
        {{"key", one.key}, {"type", one.type}, {"default", one.fallback}, {"text", one.text}});
  for (const std::string& kind : model::registered_kinds()) {
    json own = json::object();
    for (const job::SettingText& one : model_texts(kind)) own[one.key] = one.fallback;
    kinds[kind] = own;
  }
  return {{"keys", keys}, {"models", kinds}};
}

// Of "train.steps" its section and its own name.
std::pair<std::string, std::string> section_of(const std::string& key) {
  const std::size_t dot = key.find('.');
  if (dot == std::string::npos) return {"", key};
  return {key.substr(0, dot), key.substr(dot + 1)};
}

std::string job_file_text(bool markdown) {
  std::string out = markdown ? "# gpunode: the job file\n\n" : "The job file (TOML)\n";
  out +=
      "Keys without a section stand first; the others in [data], [model], [train], [checkpoint] "
      "and\n[exchange]. Only name and data.path or data.set are required. Examples: "
      "share/gpunode/jobs, examples/jobs.\n";
  std::string section = "?";
  for (const job::SettingText& one : job::setting_texts()) {
    const auto [of, key] = section_of(one.key);
    if (of != section) {
      const std::string title = of.empty() ? "top level" : "[" + of + "]";
      out += markdown ? "\n## " + title + "\n\n" : "\n" + title + "\n";
      section = of;
    }
    const std::string value = one.fallback.empty() ? "" : ", default " + one.fallback;
    if (markdown) {
      out += "- `" + key + "` (" + one.type + value + "): " + one.text + "\n";
      continue;
    }
    out += "  " + key + "  (" + one.type + value + ")\n";
    std::string lines = wrapped(one.text, 84);
    for (std::size_t at = 0; at < lines.size();) {
      const std::size_t end = lines.find('\n', at);
      out += "      " + lines.substr(at, end - at) + "\n";
      at = end + 1;
    }
  }
  out += markdown ? "\n## Keys of the models in [model]\n\n" : "\nKeys of the models in [model]\n";
  for (const std::string& kind : model::registered_kinds()) {
    std::string keys;
    for (const job::SettingText& one : model_texts(kind))
      keys += (keys.empty() ? "" : ", ") + one.key + " = " + one.fallback;
    if (!keys.empty()) out += (markdown ? "- `" + kind + "`: " : "  " + kind + ": ") + keys + "\n";
  }
  return out;
}

}  // namespace

int run_help(const Invocation& invocation) {
  std::string wanted = invocation.arguments.text("COMMAND");
  const bool of_job_file = wanted == "job";
  if (invocation.json()) {
    print_json(of_job_file ? job_file_json() : description());
    return kOk;
  }
  if (invocation.arguments.has("--markdown")) {
    print(of_job_file ? job_file_text(true) : markdown());
    return kOk;
  }
  if (wanted.empty()) {
    print(overview());
    return kOk;
  }
  std::string out;
  std::vector<std::string> known;
  for (const Command& command : commands()) {
    known.push_back(command.name);
    const bool meant = command.name == wanted || std::ranges::count(command.aliases, wanted) > 0;
    if (meant || command.name.starts_with(wanted + " "))
      out += (out.empty() ? "" : "\n") + help_of(command) + (meant ? answers_text(command) : "");
  }
  if (out.empty())
    return fail(invocation, {ErrorCode::invalid_argument, unknown_word("command", wanted, known)},
                kUsage);
  if (of_job_file) out = job_file_text(false) + "\n" + out;
  print(out);
  return kOk;
}

}  // namespace gpunode::cli
