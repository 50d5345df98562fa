// The outer, fixed layouts of the join frames, and what is checked before anything is parsed.
#include "runtime/security/join_protocol.hpp"

#include "runtime/security/detail/join_records.hpp"
#include "runtime/security/detail/layout.hpp"

#include <algorithm>

namespace gpunode::security {

namespace {

constexpr std::string_view kMagic = "gpnjoin";
constexpr std::string_view kRequestPurpose = "gpunode join request 1";
constexpr std::string_view kAnswerPurpose = "gpunode join answer 1";
constexpr std::size_t kMaxDetailBytes = 512;
constexpr std::size_t kLinkKeyBytes = 32 + 8 + 64 + 64;
constexpr std::size_t kFixedBytes = 16 + 32 + kLinkKeyBytes + 32 + 32;  // of an opened request
constexpr std::size_t kProofBytes = 32;
constexpr std::size_t kSignatureBytes = 64;
constexpr std::uint8_t kInClear = 0;
constexpr std::uint8_t kSealed = 1;

using detail::LayoutReader;
using detail::LayoutWriter;

LayoutWriter begin(JoinFrame kind) {
  LayoutWriter writer;
  writer.raw(as_bytes(kMagic));
  writer.u8(static_cast<std::uint8_t>(kind));
  return writer;
}

Error not_ours(std::string_view what) {
  return {ErrorCode::protocol_mismatch, std::string("not a gpunode ") + std::string(what)};
}

// The reader behind magic and kind, or nothing.
std::optional<LayoutReader> body_of(ByteView frame, JoinFrame kind) {
  if (frame_kind(frame) != kind) return std::nullopt;
  return LayoutReader(frame.subspan(kMagic.size() + 1));
}

Bytes answer_statement(const Nonce& nonce, ByteView body) {
  LayoutWriter writer;
  writer.raw(nonce);
  writer.raw(body);
  return writer.take();
}

Sha256 proof_of(ByteView proven, const Secret<32>& proof_key, const ClusterIdentity& cluster,
                const CurveKey& issuer) {
  LayoutWriter transcript;
  transcript.text("gpunode join proof 1");
  transcript.raw(cluster.id.value);
  transcript.raw(cluster.founder.value);
  transcript.raw(cluster.recovery.value);
  transcript.raw(issuer.value);
  transcript.raw(proven);
  return hmac_sha256(proof_key.view(), transcript.bytes());
}

}  // namespace

std::optional<JoinFrame> frame_kind(ByteView frame) {
  if (frame.size() <= kMagic.size() || as_text(frame.first(kMagic.size())) != kMagic) {
    return std::nullopt;
  }
  auto kind = static_cast<std::uint8_t>(frame[kMagic.size()]);
  if (kind < 1 || kind > 4) return std::nullopt;
  return static_cast<JoinFrame>(kind);
}

Bytes encode_hello(const JoinHello& hello) {
  LayoutWriter writer = begin(JoinFrame::hello);
  writer.u16(hello.version_min);
  writer.u16(hello.version_max);
  writer.raw(hello.issuer.value);
  return writer.take();
}

Result<JoinHello> decode_hello(ByteView frame) {
  auto reader = body_of(frame, JoinFrame::hello);
  if (!reader) return not_ours("hello");
  JoinHello hello;
  hello.version_min = reader->u16();
  hello.version_max = reader->u16();
  hello.issuer.value = reader->array<32>();
  if (!reader->ok() || hello.version_min > hello.version_max) return not_ours("hello");
  return hello;
}

Bytes encode_banner(const JoinBanner& banner) {
  LayoutWriter writer = begin(JoinFrame::banner);
  writer.u16(banner.version_min);
  writer.u16(banner.version_max);
  writer.raw(banner.cluster_hash);
  writer.time(banner.clock);
  writer.raw(banner.node.value);
  writer.raw(banner.nonce);
  writer.u8(static_cast<std::uint8_t>(banner.issuer));
  writer.text(std::string_view(banner.name).substr(0, Admission::kMaxNameBytes));
  return writer.take();
}

Result<JoinBanner> decode_banner(ByteView frame) {
  auto reader = body_of(frame, JoinFrame::banner);
  if (!reader) return not_ours("banner");
  JoinBanner banner;
  banner.version_min = reader->u16();
  banner.version_max = reader->u16();
  if (!reader->ok() || banner.version_min > banner.version_max) return not_ours("banner");
  if (banner.version_min > kJoinVersion) return banner;  // the rest may be laid out otherwise
  banner.cluster_hash = reader->array<16>();
  banner.clock = reader->time();
  banner.node.value = reader->array<32>();
  banner.nonce = reader->array<32>();
  std::uint8_t issuer = reader->u8();
  banner.name = reader->text(Admission::kMaxNameBytes);
  if (!reader->ok() || issuer > 4) return not_ours("banner");
  banner.issuer = static_cast<IssuerState>(issuer);
  return banner;
}

Result<Bytes> encode_request(const JoinRequest& request, const Identity& joiner,
                             const JoinToken& token) {
  if (!detail::in_bounds(request.record)) {
    return {ErrorCode::invalid_argument,
            "a node has a name of at most 64 bytes, 8 addresses of 128 and 16 labels of 64"};
  }
  LayoutWriter statement;
  statement.raw(token.id);
  statement.raw(joiner.sign_key().value);
  const LinkKey& link = joiner.link_key();
  statement.raw(link.key.value);
  statement.u64(link.epoch);
  statement.raw(link.by_node);
  statement.raw(link.by_key);
  statement.raw(request.nonce);
  statement.raw(request.banner_nonce);
  statement.raw(detail::encode_record(request.record));
  Signature signature = joiner.sign(kRequestPurpose, statement.bytes());
  statement.raw(signature);
  Sha256 proof = proof_of(statement.bytes(), token.proof_key(), token.cluster, token.issuer_curve);
  statement.raw(proof);

  LayoutWriter frame = begin(JoinFrame::request);
  frame.u16(kJoinVersion);
  frame.raw(token.issuer.value);
  frame.raw(seal_to(token.issuer_curve, statement.bytes()));
  if (frame.bytes().size() > kMaxRequestBytes) {
    return {ErrorCode::invalid_argument,
            "the node's name, addresses and labels together take more than 3 KiB; shorten them"};
  }
  return frame.take();
}

Result<NodeId> request_issuer(ByteView frame) {
  auto reader = body_of(frame, JoinFrame::request);
  if (!reader || frame.size() > kMaxRequestBytes) return not_ours("join request");
  std::uint16_t version = reader->u16();
  NodeId issuer{reader->array<32>()};
  if (!reader->ok()) return not_ours("join request");
  if (version != kJoinVersion) {
    return {ErrorCode::protocol_mismatch, "the join request has version " +
                                              std::to_string(version) + ", this node speaks " +
                                              std::to_string(kJoinVersion)};
  }
  return issuer;
}

Result<OpenedRequest> open_request(ByteView frame, const Identity& issuer) {
  auto addressed = request_issuer(frame);
  if (!addressed) return addressed.error();
  if (*addressed != issuer.id()) return {ErrorCode::invalid_argument, "for another issuer"};
  auto opened = issuer.open_sealed(frame.subspan(kMagic.size() + 1 + 2 + 32));
  if (!opened) return opened.error();
  if (opened->size() < kFixedBytes + kSignatureBytes + kProofBytes) return not_ours("join request");
  OpenedRequest out;
  ByteView all = *opened;
  LayoutReader reader(all);
  out.request.token = reader.array<16>();
  out.request.sign_key.value = reader.array<32>();
  LinkKey& link = out.request.link_key;
  link.node = node_id_of(out.request.sign_key);
  link.key.value = reader.array<32>();
  link.epoch = reader.u64();
  link.by_node = reader.array<64>();
  link.by_key = reader.array<64>();
  const auto curve = link.curve_key();
  if (!curve) return not_ours("join request");
  out.request.curve_key = *curve;
  out.request.nonce = reader.array<32>();
  out.request.banner_nonce = reader.array<32>();
  out.record = to_bytes(reader.raw(all.size() - kFixedBytes - kSignatureBytes - kProofBytes));
  out.signature = reader.array<64>();
  out.proof = reader.array<32>();
  out.proven = to_bytes(all.first(all.size() - kProofBytes));
  return out;
}

bool proves_token(const OpenedRequest& opened, const Secret<32>& proof_key,
                  const ClusterIdentity& cluster, const CurveKey& issuer) {
  return constant_time_equal(proof_of(opened.proven, proof_key, cluster, issuer), opened.proof);
}

Result<JoinRequest> believe_request(OpenedRequest opened) {
  ByteView statement = ByteView(opened.proven).first(opened.proven.size() - kSignatureBytes);
  if (!verify(opened.request.sign_key, kRequestPurpose, statement, opened.signature)) {
    return {ErrorCode::unauthenticated, "the join request is not signed by the key it names"};
  }
  if (!opened.request.link_key.is_genuine(opened.request.sign_key))
    return {ErrorCode::unauthenticated, "the join request names a link key that is not its own"};
  auto record = detail::decode_record(opened.record);
  if (!record) return record.error();
  opened.request.record = std::move(*record);
  return std::move(opened.request);
}

Bytes encode_refusal(JoinRefusal refusal, std::string_view detail) {
  LayoutWriter writer = begin(JoinFrame::answer);
  writer.u8(kInClear);
  writer.u16(static_cast<std::uint16_t>(refusal));
  writer.text(detail.substr(0, kMaxDetailBytes));
  return writer.take();
}

Bytes encode_answer(const JoinAnswer& answer, const JoinRequest& request, const Identity& issuer) {
  Bytes body = detail::encode_answer_body(answer);
  LayoutWriter statement;
  statement.raw(request.nonce);
  statement.raw(issuer.sign_key().value);
  statement.raw(issuer.sign(kAnswerPurpose, answer_statement(request.nonce, body)));
  statement.raw(body);
  LayoutWriter frame = begin(JoinFrame::answer);
  frame.u8(kSealed);
  frame.raw(seal_to(request.curve_key, statement.bytes()));
  return frame.take();
}

namespace {

Result<JoinAnswer> decode_sealed(ByteView sealed, const Identity& joiner, const NodeId& issuer,
                                 const Nonce& nonce) {
  auto opened = joiner.open_sealed(sealed);
  if (!opened) return opened.error();
  LayoutReader reader(*opened);
  Nonce echoed = reader.array<32>();
  SignKey sign_key{reader.array<32>()};
  Signature signature = reader.array<64>();
  ByteView body = reader.rest();
  if (!reader.ok() || echoed != nonce || node_id_of(sign_key) != issuer ||
      !verify(sign_key, kAnswerPurpose, answer_statement(nonce, body), signature)) {
    return {ErrorCode::unauthenticated, "the answer is not from the node that issued the token"};
  }
  return detail::decode_answer_body(body);
}

}  // namespace

Result<JoinAnswer> decode_answer(ByteView frame, const Identity& joiner, const NodeId& issuer,
                                 const Nonce& nonce) {
  auto reader = body_of(frame, JoinFrame::answer);
  if (!reader || frame.size() > kMaxAnswerBytes) return not_ours("join answer");
  std::uint8_t form = reader->u8();
  if (!reader->ok() || form > kSealed) return not_ours("join answer");
  if (form == kSealed) return decode_sealed(reader->rest(), joiner, issuer, nonce);
  JoinAnswer answer;
  answer.refusal = static_cast<JoinRefusal>(reader->u16());
  answer.detail = reader->text(kMaxDetailBytes);
  if (!reader->ok() || answer.refusal == JoinRefusal::none) return not_ours("join answer");
  return answer;
}

}  // namespace gpunode::security
