#include "tools/gpunode/node_settings.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "actors/toml_text.hpp"
#include "runtime/base/nearest.hpp"
#include "runtime/storage/posix_file_system.hpp"

namespace gpunode::cli {
namespace {

using nlohmann::json;

constexpr const char* kEarlier = "earlier.json";  // in the state directory
constexpr std::uint64_t kLargest = 1 << 20;       // of either file, bytes

constexpr const char* kNone = "none";  // ends what an earlier start was told
constexpr const char* kData = "data";  // a section for each set in the file; NAME=PATH elsewhere

enum class Kind { text, path, list, whole, yes };  // a path is of this folder, or of the file's
struct Row {
  const char* key;
  const char* flag;
  Kind kind;
  const char* fallback;
  bool remembered;
};
constexpr Row kRows[] = {
    {"name", "--name", Kind::text, "", true},
    {"labels", "--label", Kind::list, "", true},
    {"listen", "--listen", Kind::text, "0.0.0.0:7601", true},
    {"allow", "--allow", Kind::list, "", true},
    {kData, "--data", Kind::list, "", true},
    {"advertise", "--advertise", Kind::text, "", true},
    {"threads", "--threads", Kind::whole, "", false},
    {"device", "--device", Kind::text, "auto", false},
    {"device_timeout", "--device-timeout", Kind::text, "2m", false},
    {"on_device_loss", "--on-device-loss", Kind::text, "restart", false},
    {"metrics", "--metrics", Kind::text, "", true},
    {"http", "--http", Kind::text, "", true},
    {"http_tls_cert", "--http-tls-cert", Kind::path, "", true},
    {"http_tls_key", "--http-tls-key", Kind::path, "", true},
    {"cors_origins", "--cors-origin", Kind::list, "", true},
    {"insecure_http", "--insecure-http", Kind::text, "", true},
    {"bulk_plain", "--bulk-plain", Kind::yes, "", false},
    {"log_json", "--log-json", Kind::yes, "", false},
    {"no_sandbox", "--no-sandbox", Kind::yes, "", false},
};

Error bad(std::string detail) {
  return {ErrorCode::invalid_argument, std::move(detail)};
}

Result<std::vector<std::string>> values_of(const Row& row, const toml::node& node) {
  const std::string key = "key '" + std::string(row.key) + "' wants ";
  std::vector<std::string> values;
  switch (row.kind) {
    case Kind::text:
    case Kind::path:
      if (auto text = node.value_exact<std::string>()) return std::vector{*text};
      return bad(key + "a text in quotes" + toml_place(node));
    case Kind::whole:
      if (auto whole = node.value_exact<std::int64_t>()) return std::vector{std::to_string(*whole)};
      return bad(key + "a whole number" + toml_place(node));
    case Kind::yes:
      if (auto flag = node.value_exact<bool>())
        return *flag ? std::vector{std::string()} : std::vector<std::string>{};
      return bad(key + "true or false" + toml_place(node));
    case Kind::list:
      break;
  }
  const toml::array* list = node.as_array();
  if (!list) return bad(key + "a list of texts, such as [\"zone=a\"]" + toml_place(node));
  for (const toml::node& item : *list) {
    auto text = item.value_exact<std::string>();
    if (!text) return bad(key + "a list of texts" + toml_place(item));
    values.push_back(*text);
  }
  return values;
}

// One that is relative starts at the file's folder.
std::string whole_path(const std::string& written, const std::string& file) {
  const std::filesystem::path given(written);
  if (written.empty() || written == kNone) return written;
  return (given.is_absolute() ? given : std::filesystem::absolute(file).parent_path() / given)
      .lexically_normal()
      .string();
}

// [data.NAME]; a path that is relative starts at the file's folder.
Result<DataOffer> data_set_of(const std::string& name, const toml::node& entry,
                              const std::string& file) {
  const auto wrong = [&] {
    return bad(
        "[data." + name +
        "] wants path = \"a file or a folder\", and may say for whose jobs: for = [\"any\"], "
        "or ids of nodes" +
        toml_place(entry));
  };
  const toml::table* fields = entry.as_table();
  const auto path = fields ? (*fields)["path"].value_exact<std::string>() : std::nullopt;
  if (!path) return wrong();
  DataOffer offer;
  if (const toml::node* users = fields->get("for")) {
    const toml::array* list = users->as_array();
    if (!list) return wrong();
    offer.users.clear();
    for (const toml::node& user : *list) {
      const auto text = user.value_exact<std::string>();
      if (!text) return wrong();
      offer.users.push_back(*text);
    }
  }
  for (const auto& [key, value] : *fields)
    if (key != "path" && key != "for")
      return bad("[data." + name + "] has neither use nor place for '" + std::string(key.str()) +
                 "': it takes path and for" + toml_place(value));
  offer.path = whole_path(*path, file);
  return offer;
}

}  // namespace

std::string to_string(Source source) {
  switch (source) {
    case Source::flag:
      return "flag";
    case Source::file:
      return NodeSettings::kFile;
    case Source::earlier:
      return "an earlier start";
    case Source::fallback:
      break;
  }
  return "default";
}

Result<NodeSettings> NodeSettings::read(const Invocation& invocation) {
  NodeSettings settings;
  settings.state_ = invocation.state();
  settings.arguments_ = invocation.arguments;
  for (const Row& row : kRows) {
    Value value{row.key, row.flag, {}, Source::fallback};
    if (*row.fallback) value.values = {row.fallback};
    settings.values_.push_back(std::move(value));
  }
  if (auto read = settings.read_earlier(); !read) return read.error();
  const std::string named = invocation.arguments.text("--config");
  const std::string path = named.empty() ? settings.state_ + '/' + kFile : named;
  std::error_code failure;
  if (!named.empty() || std::filesystem::exists(path, failure))
    if (auto read = settings.read_file(path); !read) return read.error().within(path);
  settings.add_flags();
  if (auto added = settings.add_data_flags(); !added) return added.error();
  return settings;
}

Result<void> NodeSettings::read_file(const std::string& path) {
  storage::PosixFileSystem files;
  auto bytes = files.read(path, kLargest);
  if (!bytes) return bytes.error();
  auto table = parse_toml(as_text(*bytes), "it");
  if (!table) return table.error();
  file_ = std::filesystem::absolute(path).string();  // the node leaves this folder
  std::vector<std::string> known;
  for (const Row& row : kRows) known.emplace_back(row.key);
  for (auto&& [key, node] : *table) {
    const std::string name(key.str());
    if (name == kData) {
      const toml::table* sets = node.as_table();
      if (!sets)
        return bad("'data' is a section: write [data.NAME] and path = \"...\"" + toml_place(node));
      for (auto&& [set, entry] : *sets) {
        const std::string set_name(set.str());
        auto offer = data_set_of(set_name, entry, path);
        if (!offer) return offer.error();
        data_sets_[set_name] = *std::move(offer);
      }
      continue;
    }
    const auto row = std::ranges::find(kRows, name, &Row::key);
    if (row == std::end(kRows)) return bad(unknown_word("key", name, known) + toml_place(node));
    auto values = values_of(*row, node);
    if (!values) return values.error();
    Value& value = values_[static_cast<std::size_t>(row - kRows)];
    value.values = *std::move(values);
    value.source = Source::file;
    if (row->kind == Kind::path)
      for (std::string& one : value.values) one = whole_path(one, path);
  }
  return {};
}

// NAME=PATH; one that the file has, too, comes first.
Result<void> NodeSettings::add_data_flags() {
  const auto row = std::ranges::find(kRows, std::string_view(kData), &Row::key);
  Value& value = values_[static_cast<std::size_t>(row - kRows)];
  for (std::string& one : value.values) {
    const std::size_t equals = one.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == one.size())
      return bad("--data wants NAME=PATH, not '" + one + "'");
    const std::string name = one.substr(0, equals);
    // The node leaves this folder, and the next start may be in another one.
    const std::filesystem::path path = std::filesystem::absolute(one.substr(equals + 1));
    one = name + "=" + path.lexically_normal().string();
    data_sets_[name] = {path.lexically_normal().string()};
  }
  return {};
}

// Written by this program: what it does not understand is not known.
Result<void> NodeSettings::read_earlier() {
  storage::PosixFileSystem files;
  auto bytes = files.read(state_ + '/' + kEarlier, kLargest);
  if (!bytes) return bytes.error().code == ErrorCode::not_found ? Result<void>() : bytes.error();
  const json stored = json::parse(as_text(*bytes), nullptr, false);
  for (std::size_t at = 0; at < values_.size(); ++at) {
    if (!kRows[at].remembered || !stored.is_object() || !stored.contains(kRows[at].key)) continue;
    const json& list = stored[kRows[at].key];
    const auto is_text = [](const json& one) { return one.is_string(); };
    if (!list.is_array() || !std::ranges::all_of(list, is_text)) continue;
    values_[at].values = list.get<std::vector<std::string>>();
    values_[at].source = Source::earlier;
  }
  return {};
}

void NodeSettings::add_flags() {
  for (Value& value : values_) {
    if (arguments_.has(value.flag)) {
      value.values = arguments_.all(value.flag);
      value.source = Source::flag;
      const auto row = std::ranges::find(kRows, value.key, &Row::key);
      if (row->kind != Kind::path) continue;
      arguments_.clear(value.flag);  // the node leaves this folder
      for (std::string& one : value.values)
        arguments_.add(value.flag,
                       one = whole_path(one, (std::filesystem::current_path() / "here").string()));
    } else if (value.source != Source::fallback) {
      for (const std::string& one : value.values) arguments_.add(value.flag, one);
    }
  }
}

Error NodeSettings::explained(Error error) const {
  for (const Value& value : values_)
    if (value.source == Source::file && error.detail.find(value.flag) != std::string::npos)
      return error.within("key '" + value.key + "' in " + file_);
  return error;
}

Result<void> NodeSettings::remember() const {
  json kept = json::object();
  for (std::size_t at = 0; at < values_.size(); ++at) {
    const bool told = values_[at].source == Source::flag || values_[at].source == Source::earlier;
    if (kRows[at].remembered && told) kept[kRows[at].key] = values_[at].values;
  }
  storage::PosixFileSystem files;
  const std::string text = kept.dump(2) + '\n';
  return files.write_atomic(state_ + '/' + kEarlier, {as_bytes(text)});
}

Result<void> NodeSettings::forget(const std::string& state) {
  storage::PosixFileSystem files;
  auto removed = files.remove(state + '/' + kEarlier);
  if (!removed && removed.error().code == ErrorCode::not_found) return {};
  return removed;
}

}  // namespace gpunode::cli
