// What crosses a join endpoint: four frames of a fixed outer layout. The endpoint has no
// encryption of its own, so that it can tell any caller what it is; the request is sealed to the
// token's issuer, the answer to the joiner. Anyone may send anything here: decoding never throws,
// never reads past the end and gives typed errors.
//
//   hello    joiner -> any node   magic, versions, issuer of the token
//   banner   node -> joiner       magic, versions, hash of the cluster id, clock, who it is, nonce,
//                                 whether the issuer can be reached from here
//   request  joiner -> issuer     at most 4 KiB; any node relays it unopened
//   answer   issuer -> joiner     ADMIT record, all credentials, members; or a refusal
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/security/admission.hpp"
#include "runtime/security/join_token.hpp"

namespace gpunode::security {

inline constexpr std::uint16_t kJoinVersion = 1;
inline constexpr std::size_t kMaxRequestBytes = 4096;
inline constexpr std::size_t kMaxAnswerBytes = std::size_t{1} << 20;

enum class JoinFrame : std::uint8_t { hello = 1, banner = 2, request = 3, answer = 4 };

struct JoinHello {
  std::uint16_t version_min = kJoinVersion;
  std::uint16_t version_max = kJoinVersion;
  NodeId issuer;
};

enum class IssuerState : std::uint8_t { here = 0, up = 1, away = 2, unknown = 3, put_out = 4 };

struct JoinBanner {
  std::uint16_t version_min = kJoinVersion;
  std::uint16_t version_max = kJoinVersion;
  std::array<std::byte, 16> cluster_hash{};
  WallTime clock{};  // milliseconds
  NodeId node;
  std::string name;
  Nonce nonce{};
  IssuerState issuer = IssuerState::unknown;
};

// What a joiner says about itself; signed by its own key inside the request.
struct JoinRecord {
  static constexpr std::size_t kMaxEndpoints = 8, kMaxEndpointBytes = 128;
  static constexpr std::size_t kMaxLabels = 16, kMaxLabelBytes = 64;

  std::string name;
  std::vector<std::string> advertised;  // "tcp://host:port" of its control endpoint, may be empty
  bool must_be_reachable = false;       // given with --advertise: refuse rather than dial-only
  std::vector<std::string> labels;
};

struct JoinRequest {
  TokenId token{};
  SignKey sign_key;
  LinkKey link_key;
  CurveKey curve_key;    // of link_key
  Nonce nonce{};         // the joiner's
  Nonce banner_nonce{};  // of the banner it answers
  JoinRecord record;
};

// Why a node was not admitted; on the wire, append only.
enum class JoinRefusal : std::uint16_t {
  none = 0,
  malformed = 1,
  protocol_mismatch = 2,
  wrong_token = 3,
  token_expired = 4,
  token_used_up = 5,
  address_not_reachable = 6,
  issuer_away = 7,
  issuer_unknown = 8,
  too_many = 9,
  may_not_admit = 10,
  storage_failed = 11,
  stale_banner = 12,
  put_out = 13,
};

struct JoinAnswer {
  JoinRefusal refusal = JoinRefusal::none;
  std::string detail;      // names the address, the time, ... in a refusal
  bool reachable = false;  // whether the advertised address was reached from the issuer
  Admission admission;
  Credentials credentials;  // all of them, the chain to the founder among them
  Bytes members;            // opaque: the membership's own encoding, the issuer included
};

std::optional<JoinFrame> frame_kind(ByteView frame);  // nothing: not a frame of ours

Bytes encode_hello(const JoinHello& hello);
Result<JoinHello> decode_hello(ByteView frame);
Bytes encode_banner(const JoinBanner& banner);
Result<JoinBanner> decode_banner(ByteView frame);

// Signs with the joiner's key and proves the token. Fails with invalid_argument when the record is
// out of bounds or the frame would pass 4 KiB.
Result<Bytes> encode_request(const JoinRequest& request, const Identity& joiner,
                             const JoinToken& token);
// Whom to relay to; reads the outer layout only.
Result<NodeId> request_issuer(ByteView frame);

// A request that the issuer has opened but not believed: only fixed fields are read so far.
struct OpenedRequest {
  JoinRequest request;    // record is empty
  Signature signature{};  // by the joiner's signing key
  Sha256 proof{};         // HMAC(K, cluster, issuer's key, proven)
  Bytes proven;           // everything before the proof
  Bytes record;           // not parsed yet
};
Result<OpenedRequest> open_request(ByteView frame, const Identity& issuer);
// Whether the sender knows the token's secret. Constant time.
bool proves_token(const OpenedRequest& opened, const Secret<32>& proof_key,
                  const ClusterIdentity& cluster, const CurveKey& issuer);
// Parses the record of a proven request and checks its signature. Fails with corrupted,
// unauthenticated.
Result<JoinRequest> believe_request(OpenedRequest opened);

// An answer in clear, from a node that is not the issuer or cannot tell to whom it speaks.
Bytes encode_refusal(JoinRefusal refusal, std::string_view detail);
// An answer of the issuer: signed by it over the request's nonce and sealed to the joiner.
Bytes encode_answer(const JoinAnswer& answer, const JoinRequest& request, const Identity& issuer);
Result<JoinAnswer> decode_answer(ByteView frame, const Identity& joiner, const NodeId& issuer,
                                 const Nonce& nonce);

}  // namespace gpunode::security
