#include "runtime/security/identity.hpp"

#include "runtime/security/crypto.hpp"
#include "runtime/security/detail/layout.hpp"
#include "runtime/security/detail/private_record.hpp"
#include "runtime/security/detail/sodium.hpp"

namespace gpunode::security {

namespace {

constexpr storage::RecordFormat kFormat{{'G', 'P', 'I', 'D'}, 3};
constexpr std::size_t kSeedBytes = 32;
constexpr std::uint64_t kFirstEpoch = 1;

Signature signature_of(const GuardedSecret<64>& secret, std::string_view purpose,
                       ByteView message) {
  const Bytes bytes = detail::with_purpose(purpose, message);
  Signature signature;
  crypto_sign_detached(detail::raw(signature), nullptr, detail::raw(bytes), bytes.size(),
                       detail::raw(secret.view()));
  return signature;
}

}  // namespace

std::optional<Identity> Identity::from_seeds(ByteView sign_seed, ByteView link_seed,
                                             std::uint64_t epoch, ByteView link_seed_before) {
  detail::ensure_sodium();
  Identity identity;
  crypto_sign_seed_keypair(detail::raw(identity.sign_key_.value),
                           detail::raw_out(identity.sign_secret_.writable()),
                           detail::raw(sign_seed));
  identity.id_ = node_id_of(identity.sign_key_);
  LinkKey& link = identity.link_key_;
  crypto_sign_seed_keypair(detail::raw(link.key.value),
                           detail::raw_out(identity.link_secret_.writable()),
                           detail::raw(link_seed));
  link.node = identity.id_;
  link.epoch = epoch;
  link.by_node = identity.sign(kLinkKeyPurpose, link.signed_bytes());
  link.by_key = signature_of(identity.link_secret_, kLinkKeyPurpose, link.signed_bytes());
  const auto curve = link.curve_key();
  if (!curve ||
      crypto_sign_ed25519_sk_to_curve25519(detail::raw_out(identity.curve_secret_.writable()),
                                           detail::raw(identity.link_secret_.view())) != 0)
    return std::nullopt;
  identity.curve_key_ = *curve;
  if (link_seed_before.empty()) return identity;
  auto before = from_seeds(sign_seed, link_seed_before, epoch - 1);
  if (!before) return std::nullopt;
  identity.curve_before_ = CurvePair{before->curve_key_, std::move(before->curve_secret_)};
  return identity;
}

Identity Identity::create() {
  const auto sign = random_secret<kSeedBytes>(), link = random_secret<kSeedBytes>();
  return std::move(*from_seeds(sign.view(), link.view(), kFirstEpoch));
}

Identity Identity::of_seed(const Secret<32>& sign_seed) {
  const auto link = random_secret<kSeedBytes>();
  return std::move(*from_seeds(sign_seed.view(), link.view(), kFirstEpoch));
}

Result<Identity> Identity::load_or_create(storage::FileSystem& files,
                                          const storage::Path& state_directory) {
  storage::Path path = state_directory / "identity.key";
  auto stored = detail::load_private(files, path, kFormat);
  if (!stored) return stored.error().within("this node's keys");
  if (stored->has_value()) {
    Bytes& bytes = **stored;
    detail::LayoutReader reader(bytes);
    const ByteView sign = reader.raw(kSeedBytes), link = reader.raw(kSeedBytes);
    const std::uint64_t epoch = reader.u64();
    const ByteView before = epoch > kFirstEpoch ? reader.raw(kSeedBytes) : ByteView();
    std::optional<Identity> identity;
    if (reader.ok() && reader.at_end()) identity = from_seeds(sign, link, epoch, before);
    wipe(bytes);
    if (identity) return std::move(*identity);
    return {ErrorCode::corrupted,
            path.string() +
                " is not a key file of this version; restore it from a copy, or move "
                "the state directory away and join anew as another node"};
  }
  for (const char* other : {"cluster", "admissions"})
    if (files.exists(state_directory / other))
      return {
          ErrorCode::not_found,
          path.string() +
              " is missing, and this state directory has been a node's: restore the file from a "
              "copy, or move the state directory away and join anew as another node"};
  Identity identity = create();
  if (auto written = identity.store(files, state_directory, {}); !written) return written.error();
  return identity;
}

// The seeds stand first in libsodium's form of the secrets.
Result<void> Identity::store(storage::FileSystem& files, const storage::Path& state_directory,
                             ByteView link_seed_before) const {
  Bytes payload(2 * kSeedBytes + sizeof(std::uint64_t) + link_seed_before.size());
  std::byte* at = payload.data();
  const auto put = [&at](const void* from, std::size_t bytes) {
    std::memcpy(at, from, bytes);
    at += bytes;
  };
  put(sign_secret_.view().data(), kSeedBytes);
  put(link_secret_.view().data(), kSeedBytes);
  put(&link_key_.epoch, sizeof(std::uint64_t));
  if (!link_seed_before.empty()) put(link_seed_before.data(), link_seed_before.size());
  auto written =
      storage::DurableRecord(files, state_directory / "identity.key", kFormat).store(payload);
  wipe(payload);
  return written ? written : Result<void>(written.error().within("this node's keys"));
}

Result<void> Identity::rotate(storage::FileSystem& files, const storage::Path& state_directory) {
  const auto seed = random_secret<kSeedBytes>();
  const ByteView before = link_secret_.view().first(kSeedBytes);
  Identity next = std::move(
      *from_seeds(sign_secret_.view().first(kSeedBytes), seed.view(), link_key_.epoch + 1, before));
  if (auto stored = next.store(files, state_directory, before); !stored) return stored;
  link_secret_ = std::move(next.link_secret_);
  curve_secret_ = std::move(next.curve_secret_);
  link_key_ = next.link_key_;
  curve_key_ = next.curve_key_;
  curve_before_ = std::move(next.curve_before_);
  return {};
}

Signature Identity::sign(std::string_view purpose, ByteView message) const {
  return signature_of(sign_secret_, purpose, message);
}

Result<Bytes> Identity::open_sealed(ByteView sealed) const {
  Error failed{ErrorCode::unauthenticated, "a sealed frame does not open with this node's key"};
  if (sealed.size() < kSealedBoxBytes) return failed;
  Bytes opened(sealed.size() - kSealedBoxBytes);
  if (crypto_box_seal_open(detail::raw_out(opened), detail::raw(sealed), sealed.size(),
                           detail::raw(curve_key_.value), detail::raw(curve_secret_.view())) != 0) {
    return failed;
  }
  return opened;
}

}  // namespace gpunode::security
