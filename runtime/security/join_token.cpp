#include "runtime/security/join_token.hpp"

#include "runtime/security/detail/layout.hpp"

namespace gpunode::security {

namespace {

constexpr std::size_t kCheckBytes = 4;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

Error cut_off() {
  return {ErrorCode::invalid_argument,
          "the join token is cut off or a character of it was changed; copy the whole line that "
          "`gpunode token create` printed"};
}

// "gpn7_..." of another version, as opposed to any other text.
bool is_of_other_version(std::string_view text) {
  std::size_t end = text.find('_');
  if (!text.starts_with("gpn") || end == std::string_view::npos || end == 3 || end > 6)
    return false;
  std::string_view digits = text.substr(3, end - 3);
  return digits.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

std::string JoinToken::text() const {
  detail::LayoutWriter writer;
  writer.raw(cluster.id.value);
  writer.raw(cluster.founder.value);
  writer.raw(cluster.recovery.value);
  writer.raw(issuer.value);
  writer.raw(issuer_curve.value);
  writer.raw(id);
  writer.raw(secret.view());
  writer.time(expires);
  writer.u8(static_cast<std::uint8_t>(endpoints.size()));
  for (const std::string& endpoint : endpoints) writer.text(endpoint);
  Sha256 check = sha256(writer.bytes());
  writer.raw(ByteView(check).first(kCheckBytes));
  Bytes bytes = writer.take();
  std::string text = std::string(kPrefix) + to_base64url(bytes);
  wipe(bytes);
  return text;
}

Result<JoinToken> JoinToken::parse(std::string_view text) {
  text = trimmed(text);
  if (!text.starts_with(kPrefix)) {
    if (is_of_other_version(text)) {
      return {ErrorCode::protocol_mismatch,
              "the join token was made by another version of gpunode; use the same version on both "
              "nodes"};
    }
    return {ErrorCode::invalid_argument,
            "this is not a join token; one begins with gpn1_ and is printed by `gpunode token "
            "create`"};
  }
  auto bytes = from_base64url(text.substr(kPrefix.size()));
  if (!bytes || bytes->size() < kCheckBytes) return cut_off();
  ByteView body = ByteView(*bytes).first(bytes->size() - kCheckBytes);
  Sha256 check = sha256(body);
  bool intact =
      constant_time_equal(ByteView(check).first(kCheckBytes), ByteView(*bytes).last(kCheckBytes));
  detail::LayoutReader reader(body);
  JoinToken token;
  token.cluster.id.value = reader.array<16>();
  token.cluster.founder.value = reader.array<32>();
  token.cluster.recovery.value = reader.array<32>();
  token.issuer.value = reader.array<32>();
  token.issuer_curve.value = reader.array<32>();
  token.id = reader.array<16>();
  auto secret = Secret<32>::from(reader.raw(32));
  token.expires = reader.time();
  std::size_t endpoints = reader.u8();
  for (std::size_t index = 0; index < std::min(endpoints, kMaxEndpoints); ++index) {
    token.endpoints.push_back(reader.text(kMaxEndpointBytes));
  }
  wipe(*bytes);
  if (!intact || !reader.ok() || !reader.at_end() || !secret || endpoints > kMaxEndpoints)
    return cut_off();
  token.secret = std::move(*secret);
  return token;
}

Secret<32> JoinToken::proof_key() const {
  Secret<32> key;
  hkdf_sha256(secret.view(), id, as_bytes("gpunode join token 1"), key.writable());
  return key;
}

}  // namespace gpunode::security
