#include "actors/job/job_file.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <vector>

#include "actors/toml_text.hpp"
#include "runtime/base/nearest.hpp"

namespace gpunode::jobs {
namespace {

const std::vector<std::string> kSections = {"data", "model", "train", "checkpoint", "exchange"};

Error bad(std::string detail) {
  return {ErrorCode::invalid_argument, std::move(detail)};
}

// A TOML value as the text that JobSpec's settings use.
Result<std::string> value_text(const std::string& key, const toml::node& node) {
  if (auto text = node.value_exact<std::string>()) return *text;
  if (auto flag = node.value_exact<bool>()) return std::string(*flag ? "true" : "false");
  if (auto whole = node.value_exact<std::int64_t>()) return std::to_string(*whole);
  if (auto real = node.value_exact<double>()) {
    char buffer[64];
    auto end = std::to_chars(buffer, buffer + sizeof buffer, *real).ptr;
    return std::string(buffer, end);
  }
  if (const toml::array* list = node.as_array()) {
    std::string text;
    for (const toml::node& item : *list) {
      auto part = value_text(key, item);
      if (!part) return part;
      text += (text.empty() ? "" : ",") + *part;
    }
    return text;
  }
  return bad("key '" + key + "' has a value of a kind that no setting takes" + toml_place(node));
}

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string unknown_section(const std::string& name) {
  const std::vector<std::string> keys = job::known_keys("");
  if (std::find(keys.begin(), keys.end(), name) == keys.end())
    return unknown_word("section", name, kSections);
  return "'" + name + "' is a key, not a section: write " + name + " = ... before the first [";
}

Result<void> read_labels(const toml::node& node, job::JobSpec& spec) {
  const toml::array* list = node.as_array();
  if (!list) return bad("key 'labels' wants a list of texts, such as [\"gpu\"]" + toml_place(node));
  for (const toml::node& item : *list) {
    auto text = item.value_exact<std::string>();
    if (!text) return bad("key 'labels' wants a list of texts" + toml_place(item));
    spec.labels.push_back(*text);
  }
  return {};
}

Result<void> read_setting(const std::string& section, const std::string& key,
                          const toml::node& node, job::JobSpec& spec) {
  if (section.empty() && key == "labels") return read_labels(node, spec);
  std::string full = section.empty() ? key : section + "." + key;
  auto text = value_text(full, node);
  if (!text) return text.error();
  std::vector<std::string> known = job::known_keys(section);
  if (std::find(known.begin(), known.end(), key) == known.end()) {
    if (section == "model") {
      spec.model_settings[key] = *text;
      return {};
    }
    if (section.empty()) {
      if (std::find(kSections.begin(), kSections.end(), key) != kSections.end())
        return bad("'" + key + "' is a section, not a key: write [" + key + "]" + toml_place(node));
      known.insert(known.end(), kSections.begin(), kSections.end());
    }
    std::string what = section.empty() ? "key" : "key in [" + section + "]";
    std::string text = unknown_word(what, key, known);
    if (const std::string near = nearest_of(key, known); !near.empty() && !section.empty())
      text += " [" + section + "] has " + listed(known);
    return bad(text + toml_place(node));
  }
  auto done = job::set(spec, full, *text);
  return done ? done : Result<void>(bad(done.error().detail + toml_place(node)));
}

}  // namespace

Result<job::JobSpec> parse_job_file(std::string_view text, const std::string& base_directory) {
  auto parsed = parse_toml(text, "the job file");
  if (!parsed) return parsed.error();
  job::JobSpec spec;
  for (auto&& [key, node] : *parsed) {
    std::string name(key.str());
    const toml::table* section = node.as_table();
    if (!section) {
      if (auto done = read_setting("", name, node, spec); !done) return done.error();
      continue;
    }
    if (std::find(kSections.begin(), kSections.end(), name) == kSections.end())
      return bad(unknown_section(name) + toml_place(node));
    for (auto&& [inner_key, inner] : *section)
      if (auto done = read_setting(name, std::string(inner_key.str()), inner, spec); !done)
        return done.error();
  }
  for (std::string* path : {&spec.data.path, &spec.data.validation_path, &spec.model_start})
    if (!path->empty() && path->front() != '/')
      *path = (std::filesystem::path(base_directory) / *path).lexically_normal();
  if (auto valid = job::validate(spec); !valid) return valid.error();
  return spec;
}

}  // namespace gpunode::jobs
