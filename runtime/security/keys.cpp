#include "runtime/security/keys.hpp"

#include "runtime/security/crypto.hpp"
#include "runtime/security/detail/layout.hpp"
#include "runtime/security/detail/sodium.hpp"

namespace gpunode::security {

NodeId node_id_of(const SignKey& key) {
  return NodeId{sha256(key.value)};
}

bool verify(const SignKey& key, std::string_view purpose, ByteView message,
            const Signature& signature) {
  detail::ensure_sodium();
  const Bytes bytes = detail::with_purpose(purpose, message);
  return crypto_sign_verify_detached(detail::raw(signature), detail::raw(bytes), bytes.size(),
                                     detail::raw(key.value)) == 0;
}

Bytes LinkKey::signed_bytes() const {
  detail::LayoutWriter writer;
  writer.raw(node.value);
  writer.raw(key.value);
  writer.u64(epoch);
  return writer.take();
}

std::optional<CurveKey> LinkKey::curve_key() const {
  detail::ensure_sodium();
  CurveKey curve;
  if (crypto_sign_ed25519_pk_to_curve25519(detail::raw(curve.value), detail::raw(key.value)) != 0)
    return std::nullopt;
  return curve;
}

bool LinkKey::is_genuine(const SignKey& sign_key) const {
  const Bytes bytes = signed_bytes();
  return node_id_of(sign_key) == node && verify(sign_key, kLinkKeyPurpose, bytes, by_node) &&
         verify(key, kLinkKeyPurpose, bytes, by_key) && curve_key().has_value();
}

Bytes seal_to(const CurveKey& key, ByteView message) {
  detail::ensure_sodium();
  static_assert(kSealedBoxBytes == crypto_box_SEALBYTES);
  Bytes sealed(message.size() + kSealedBoxBytes);
  // Fails only for a key that is a weak point; its owner then finds a box that does not open.
  int failed = crypto_box_seal(detail::raw_out(sealed), detail::raw(message), message.size(),
                               detail::raw(key.value));
  if (failed != 0) random_bytes(sealed);
  return sealed;
}

}  // namespace gpunode::security
