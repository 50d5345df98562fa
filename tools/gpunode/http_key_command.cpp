// `http-key create`, `ls` and `revoke`: who may ask over HTTP. They work on the file in the state directory,
// which a node that runs reads anew; two of them at a time wait for nobody, the second is refused.
#include <chrono>
#include <ctime>

#include "actors/inference/key_ring.hpp"
#include "runtime/storage/posix_file_system.hpp"
#include "runtime/storage/state_directory.hpp"
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/output_file.hpp"
#include "tools/gpunode/text.hpp"

namespace gpunode::cli {
namespace {

using inference::ApiKey;
using inference::ApiKeys;
using inference::KeyRing;
using nlohmann::json;

constexpr std::uint64_t kMost = 1'000'000'000'000;

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// The file of keys, and nobody else's while it is changed.
struct KeyFile {
  storage::PosixFileSystem files;
  storage::Path path;
  std::unique_ptr<storage::FileLock> lock;
  ApiKeys keys;

  Result<void> open(const Invocation& invocation, bool to_change) {
    const storage::Path state = invocation.state();
    path = state / KeyRing::kFile;
    if (to_change) {
      // Before the first `up` there is none; one that is in use is there.
      if (const auto made = storage::StateDirectory::open(files, state);
          !made && made.error().code != ErrorCode::wrong_state)
        return made.error();
      auto held = files.lock(state / "http_keys.lock");
      if (!held) return held.error();
      lock = *std::move(held);
    }
    auto read = KeyRing::read(files, path);
    if (!read && read.error().code != ErrorCode::not_found) return read.error();
    if (read) keys = *std::move(read);
    return {};
  }
  Result<void> write() {
    const std::string text = keys.text();
    return files.write_atomic(path, {as_bytes(text)});
  }
};

std::vector<std::string> words_of(std::string_view list) {
  std::vector<std::string> words;
  while (!list.empty()) {
    const std::string_view word = list.substr(0, list.find(','));
    list.remove_prefix(std::min(word.size() + 1, list.size()));
    if (!word.empty()) words.emplace_back(word);
  }
  return words;
}

// As the flags have it.
Result<ApiKey> wanted_key(const Arguments& arguments) {
  ApiKey key{.id = {}, .name = arguments.text("NAME")};
  auto may = inference::parse_api_rights(arguments.text("--may", "infer,list"));
  if (!may) return may.error().within("--may");
  key.may = *may;
  key.models = words_of(arguments.text("--models"));
  if (arguments.has("--models") && key.models.empty())
    return Error{ErrorCode::invalid_argument,
                 "--models names no model; without it all may be used"};
  for (auto [flag, value] : {std::pair("--rate", &key.requests_per_minute),
                             {"--tokens", &key.tokens_per_minute},
                             {"--at-once", &key.at_once}}) {
    const auto given = arguments.whole(flag, 0, 1, kMost);
    if (!given) return given.error();
    *value = *given;
  }
  key.created = unix_seconds();
  if (!arguments.has("--expires")) return key;
  const auto term = arguments.duration("--expires", std::chrono::milliseconds(0));
  if (!term) return term.error();
  if (*term < std::chrono::seconds(1))
    return Error{ErrorCode::invalid_argument, "--expires is at least one second"};
  key.expires = key.created + std::chrono::duration_cast<std::chrono::seconds>(*term).count();
  return key;
}

json json_of(const ApiKey& key) {
  json told = {{"id", key.id},
               {"name", key.name},
               {"may", words_of(inference::api_rights_text(key.may))},
               {"models", key.models},
               {"requests_per_minute", key.requests_per_minute},
               {"tokens_per_minute", key.tokens_per_minute},
               {"at_once", key.at_once},
               {"created", key.created},
               {"expired", key.is_over(unix_seconds())}};
  if (key.expires != 0) told["expires"] = key.expires;
  return told;
}

std::string bound_text(const json& key, const char* name) {
  const auto bound = field<std::uint64_t>(key, name, 0);
  return bound == 0 ? "-" : std::to_string(bound);
}

std::string end_text(const json& key) {
  if (!key.contains("expires")) return "never";
  const auto left = field<std::int64_t>(key, "expires", 0) - unix_seconds();
  return left <= 0 ? "expired" : "in " + human_duration(static_cast<double>(left));
}

std::string keys_text(const json& body) {
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "ID", "MAY", "MODELS", "A MINUTE", "TOKENS A MINUTE", "AT ONCE", "ENDS"}};
  for (const json& key : list(body, "keys"))
    rows.push_back({word(key, "name"), word(key, "id"), joined(list(key, "may"), ","),
                    list(key, "models").empty() ? "all" : joined(list(key, "models"), ","),
                    bound_text(key, "requests_per_minute"), bound_text(key, "tokens_per_minute"),
                    bound_text(key, "at_once"), end_text(key)});
  return rows.size() > 1
             ? aligned(rows)
             : std::string("there are no keys: `gpunode http-key create NAME` makes one\n");
}

}  // namespace

int run_http_key_create(const Invocation& invocation) {
  auto key = wanted_key(invocation.arguments);
  if (!key) return fail(invocation, key.error(), kUsage);
  std::optional<storage::Path> out;
  if (const std::string given = invocation.arguments.text("--out"); !given.empty()) {
    auto fresh = secret_file(invocation, given);
    if (!fresh) return fail(invocation, fresh.error());
    out = *std::move(fresh);
  }
  KeyFile file;
  if (auto opened = file.open(invocation, true); !opened) return fail(invocation, opened.error());
  const std::string name = key->name;
  auto secret = file.keys.add(*std::move(key));
  if (!secret) return fail(invocation, secret.error());
  // First the key itself: one that counts and that nobody has would be of no use.
  json told = json_of(file.keys.all().back());
  if (out) {
    if (auto kept = write_secret(*out, *secret); !kept) return fail(invocation, kept.error());
    told["path"] = out->string();
  } else {
    told["key"] = *secret;
  }
  if (auto written = file.write(); !written) return fail(invocation, written.error());
  const int code = tell(invocation, {told, std::nullopt, kOk}, [](const json& body) {
    return body.contains("path") ? "" : word(body, "key") + "\n";
  });
  if (!invocation.json())
    std::fprintf(stderr,
                 "%s; clients send it as \"Authorization: Bearer KEY\". It opens this node alone\n",
                 out ? ("the key is in " + out->string()).c_str() : "it is shown this once");
  return code;
}

int run_http_key_ls(const Invocation& invocation) {
  KeyFile file;
  if (auto opened = file.open(invocation, false); !opened) return fail(invocation, opened.error());
  auto keys = json::array();
  for (const ApiKey& key : file.keys.all()) keys.push_back(json_of(key));
  return tell(invocation, {json{{"keys", std::move(keys)}}, std::nullopt, kOk}, keys_text);
}

int run_http_key_revoke(const Invocation& invocation) {
  KeyFile file;
  if (auto opened = file.open(invocation, true); !opened) return fail(invocation, opened.error());
  auto removed = file.keys.remove(invocation.arguments.text("NAME"));
  if (!removed) return fail(invocation, removed.error());
  if (auto written = file.write(); !written) return fail(invocation, written.error());
  if (file.keys.all().empty() && !invocation.json())
    std::fprintf(
        stderr,
        "there are no more keys, so nobody is answered over HTTP: `gpunode http-key create "
        "NAME` makes another; without %s a node that is started anew asks for none\n",
        file.path.c_str());
  return tell(
      invocation, {json{{"name", removed->name}, {"id", removed->id}}, std::nullopt, kOk},
      [](const json& body) { return "key '" + word(body, "name") + "' opens nothing any more\n"; });
}

}  // namespace gpunode::cli
