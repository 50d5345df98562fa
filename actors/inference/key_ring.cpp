#include "actors/inference/key_ring.hpp"

#include "runtime/base/log.hpp"

namespace gpunode::inference {
namespace {

constexpr auto kKeysLookEvery = std::chrono::milliseconds(500);
constexpr std::uint64_t kLongestFile = 16 << 20;

}  // namespace

KeyRing::KeyRing(const storage::FileSystem& files, storage::Path path, const Clock& clock,
                 bool always)
    : files_(files), path_(std::move(path)), clock_(clock), wanted_(always) {}

Result<ApiKeys> KeyRing::read(const storage::FileSystem& files, const storage::Path& path) {
  const auto entry = files.inspect(path);
  if (!entry) return entry.error();
  if (entry->open_to_others)
    return Error{ErrorCode::permission_denied,
                 path.string() +
                     " tells who may ask what, but group or others have access to it: "
                     "take that away (chmod 600)"};
  auto text = files.read(path, kLongestFile);
  if (!text) return text.error();
  auto keys = ApiKeys::parse(as_text(*text));
  if (!keys) return keys.error().within(path.string());
  return keys;
}

std::int64_t KeyRing::now() const {
  return std::chrono::duration_cast<std::chrono::seconds>(clock_.wall().time_since_epoch()).count();
}

// Under the lock.
void KeyRing::look() {
  const Time at = clock_.now();
  if (looked_ && at - *looked_ < kKeysLookEvery) return;
  const bool first = !looked_;
  looked_ = at;
  auto keys = read(files_, path_);
  const bool absent = !keys && keys.error().code == ErrorCode::not_found;
  wanted_ = wanted_ || !absent;
  std::string before = keys_.text() + (failure_ ? failure_->message() : "");
  keys_ = keys ? *std::move(keys) : ApiKeys();
  failure_ = absent || keys ? std::nullopt : std::optional(keys.error());
  if (first || before == keys_.text() + (failure_ ? failure_->message() : "")) return;
  if (failure_) return log::error("http", "nobody's key is accepted: " + failure_->message());
  log::info("http", "the keys have changed: there are " + std::to_string(keys_.all().size()));
}

bool KeyRing::is_wanted() {
  std::lock_guard lock(mutex_);
  look();
  return wanted_;
}

Result<std::size_t> KeyRing::count() {
  std::lock_guard lock(mutex_);
  look();
  if (failure_) return *failure_;
  std::size_t count = 0;
  for (const ApiKey& key : keys_.all()) count += key.is_over(now()) ? 0 : 1;
  return count;
}

Result<ApiKey> KeyRing::find(std::string_view key) {
  std::lock_guard lock(mutex_);
  look();
  if (failure_)
    return Error{ErrorCode::unavailable, "no key can be checked now; the node's log tells why"};
  const ApiKey* found = keys_.find(key);
  if (!found) return Error{ErrorCode::unauthenticated, "the API key is not known here"};
  if (found->is_over(now()))
    return Error{ErrorCode::unauthenticated, "the API key '" + found->name + "' has expired"};
  return *found;
}

bool KeyRing::has(const ApiKey& key) {
  std::lock_guard lock(mutex_);
  look();
  const ApiKey* found = keys_.with_id(key.id);
  return found && found->hash == key.hash && !found->is_over(now());
}

}  // namespace gpunode::inference
