#include "runtime/security/identity.hpp"

#include "runtime/security/crypto.hpp"
#include "runtime/security/detail/layout.hpp"
#include "runtime/security/detail/private_record.hpp"
#include "runtime/security/detail/sodium.hpp"

namespace gpunode::security {

namespace {
constexpr storage::RecordFormat kFormat{{'G', 'P', 'I', 'D'}, 1};
}

std::optional<Identity> Identity::from_secrets(ByteView sign_seed, ByteView curve_secret) {
  detail::ensure_sodium();
  Identity identity;
  auto curve = Secret<32>::from(curve_secret);
  if (!curve || sign_seed.size() != 32) return std::nullopt;
  identity.curve_secret_ = std::move(*curve);
  crypto_sign_seed_keypair(detail::raw(identity.sign_key_.value),
                           detail::raw_out(identity.sign_secret_.writable()),
                           detail::raw(sign_seed));
  if (crypto_scalarmult_base(detail::raw(identity.curve_key_.value),
                             detail::raw(identity.curve_secret_.view())) != 0) {
    return std::nullopt;
  }
  identity.id_ = node_id_of(identity.sign_key_);
  return identity;
}

Identity Identity::create() {
  auto seed = random_secret<32>();
  auto curve = random_secret<32>();
  return std::move(*from_secrets(seed.view(), curve.view()));
}

Result<Identity> Identity::load_or_create(storage::FileSystem& files,
                                          const storage::Path& state_directory) {
  storage::Path path = state_directory / "identity.key";
  auto stored = detail::load_private(files, path, kFormat);
  if (!stored) return stored.error().within("this node's keys");
  if (stored->has_value()) {
    Bytes& secrets = **stored;
    std::optional<Identity> identity;
    if (secrets.size() == 64) {
      identity = from_secrets(ByteView(secrets).first(32), ByteView(secrets).subspan(32));
    }
    wipe(secrets);
    if (identity) return std::move(*identity);
    return {ErrorCode::corrupted,
            path.string() +
                " is not a key file of this version; restore it from a copy, or move "
                "the state directory away and join anew as another node"};
  }
  Identity identity = create();
  Bytes payload(64);
  std::memcpy(payload.data(), identity.sign_secret_.view().data(), 32);
  std::memcpy(payload.data() + 32, identity.curve_secret_.view().data(), 32);
  auto written = storage::DurableRecord(files, path, kFormat).store(payload);
  wipe(payload);
  if (!written) return written.error().within("this node's keys");
  return identity;
}

Signature Identity::sign(std::string_view purpose, ByteView message) const {
  const Bytes bytes = detail::with_purpose(purpose, message);
  Signature signature;
  crypto_sign_detached(detail::raw(signature), nullptr, detail::raw(bytes), bytes.size(),
                       detail::raw(sign_secret_.view()));
  return signature;
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
