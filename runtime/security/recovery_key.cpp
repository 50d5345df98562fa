#include "runtime/security/recovery_key.hpp"

#include <array>

#include "runtime/security/crypto.hpp"

namespace gpunode::security {

namespace {

constexpr std::size_t kSeedBytes = 32;
constexpr std::size_t kCheckBytes = 4;
constexpr std::uint64_t kLongest = 4096;  // of a file that could hold one

Error no_key(std::string_view why) {
  return {ErrorCode::invalid_argument,
          "this is no recovery key (" + std::string(why) +
              "): it is the line that begins with gpnr1_ in the file that `gpunode up` wrote when "
              "the cluster was founded"};
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

}  // namespace

RecoveryKey RecoveryKey::from(Secret<32> seed) {
  Identity signer = Identity::of_seed(seed);
  return {std::move(seed), std::move(signer)};
}

RecoveryKey RecoveryKey::create() {
  return from(random_secret<kSeedBytes>());
}

Result<RecoveryKey> RecoveryKey::parse(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with("gpn1_")) return no_key("it is a join token");
  if (!text.starts_with(kPrefix)) return no_key("it begins otherwise");
  auto bytes = from_base64url(text.substr(kPrefix.size()));
  if (!bytes || bytes->size() != kSeedBytes + kCheckBytes) return no_key("it is cut off");
  const ByteView seed = ByteView(*bytes).first(kSeedBytes);
  const Sha256 check = sha256(seed);
  const bool intact =
      constant_time_equal(ByteView(check).first(kCheckBytes), ByteView(*bytes).last(kCheckBytes));
  auto kept = Secret<32>::from(seed);
  wipe(*bytes);
  if (!intact || !kept) return no_key("a character of it was changed");
  return from(std::move(*kept));
}

std::string RecoveryKey::text() const {
  Bytes bytes = to_bytes(seed_.view());
  const Sha256 check = sha256(seed_.view());
  bytes.insert(bytes.end(), check.begin(), check.begin() + kCheckBytes);
  std::string text = std::string(kPrefix) + to_base64url(bytes);
  wipe(bytes);
  return text;
}

Result<RecoveryKey> RecoveryKey::load(const storage::FileSystem& files, const storage::Path& path) {
  const auto entry = files.inspect(path);
  if (!entry) return entry.error().within("recovery key");
  if (entry->open_to_others)
    return {ErrorCode::permission_denied, path.string() +
                                              " holds a recovery key, but group or others have "
                                              "access to it: take that away (chmod 600)"};
  auto text = files.read(path, kLongest);
  if (!text) return text.error().within("recovery key");
  auto key = parse(as_text(*text));
  wipe(*text);
  if (!key) return key.error().within(path.string());
  return key;
}

Result<RecoveryKey> RecoveryKey::load_or_create(storage::FileSystem& files,
                                                const storage::Path& path) {
  auto kept = load(files, path);
  if (kept || kept.error().code != ErrorCode::not_found) return kept;
  RecoveryKey key = create();
  std::string text = key.text() + "\n";
  const auto written = files.write_atomic(path, {as_bytes(text)});
  wipe(MutableByteView(reinterpret_cast<std::byte*>(text.data()), text.size()));
  if (!written) return written.error().within("recovery key");
  return key;
}

}  // namespace gpunode::security
