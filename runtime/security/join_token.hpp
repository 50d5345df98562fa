// Join tokens. A token is the whole invitation in one line of text: which cluster, where to knock,
// whose key to trust, and a secret that proves the invitation. It is printed once; the issuer keeps
// only a key derived from the secret, so that its disk cannot be used to make one. Valid at the
// issuer alone, so that a partition cannot spend a token twice.
//
//   gpn1_<base64url of {cluster id, founder, recovery key, issuer id and Curve key, token id, secret,
//   expiry, endpoints, check sum}>
#pragma once

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/security/cluster_identity.hpp"
#include "runtime/security/crypto.hpp"
#include "runtime/security/rights.hpp"
#include "runtime/storage/durable_record.hpp"

namespace gpunode::security {

using TokenId = std::array<std::byte, 16>;

struct JoinToken {
  static constexpr std::string_view kPrefix = "gpn1_";
  static constexpr std::size_t kMaxEndpoints = 8;
  static constexpr std::size_t kMaxEndpointBytes = 128;
  static constexpr std::size_t kMaxLabelBytes = 64;

  ClusterIdentity cluster;
  NodeId issuer;
  CurveKey issuer_curve;
  TokenId id{};
  Secret<32> secret;
  WallTime expires;
  std::vector<std::string> endpoints;  // join endpoints, "tcp://host:port"

  // The one line that is shown to a person. The caller wipes it after printing.
  std::string text() const;

  // Fails with invalid_argument (not a token; cut off; a character was changed) or
  // protocol_mismatch (made by another version of gpunode). Surrounding white space is ignored.
  // The text itself never appears in the error.
  static Result<JoinToken> parse(std::string_view text);

  // K, shared by issuer and joiner: proves the secret without showing it.
  Secret<32> proof_key() const;
};

// What the issuer keeps of a token.
struct StoredToken {
  Secret<32> proof;  // K
  WallTime expires;
  std::uint32_t uses = 0;
  std::uint32_t used = 0;      // by so many nodes
  std::deque<NodeId> used_by;  // the newest kRemembered of them: all is written at each use
  static constexpr std::size_t kRemembered = 64;
  Rights rights = kRightsDefault;  // of who joins with it
  std::string label;               // for the owner's eyes
};

// Why a token does not admit.
enum class TokenVerdict { good, unknown, expired, used_up };

// The issuer's book of tokens. Owned by the control thread. Every change is on disk before it
// counts: a use that was answered is never given again, also after power loss.
class TokenBook {
 public:
  struct Options {
    std::chrono::seconds term = std::chrono::minutes(15);
    std::uint32_t uses = 1;
    std::vector<std::string> endpoints;  // where joiners should knock; at least one
    Rights rights = kRightsDefault;      // of who joins with it; the issuer holds them itself
    std::string label = {};              // tells it from others in a list
  };
  static constexpr std::size_t kLimit = 1024;  // tokens that are neither expired nor used up

  // The book in `state_directory`/join_tokens (0600); an absent file is an empty book.
  // Fails with permission_denied, corrupted, io_error.
  static Result<TokenBook> open(storage::FileSystem& files, const storage::Path& state_directory);

  // Makes a token; durable when this returns. Forgets tokens that ran out a day ago.
  // Fails with invalid_argument (term, uses or endpoints out of bounds), resource_exhausted,
  // io_error, disk_full.
  Result<JoinToken> create(const Options& options, const ClusterIdentity& cluster,
                           const Identity& issuer, WallTime now);

  // K of a token, or nothing for a stranger's.
  const Secret<32>* proof_key(const TokenId& id) const;
  // What a token gives; none for a stranger's.
  Rights rights(const TokenId& id) const;
  // Those that somebody could still join with.
  std::vector<TokenId> open(WallTime now) const;
  const StoredToken* find(const TokenId& id) const;

  // Nobody joins with it from now on; durable when this returns. Fails with not_found, io_error,
  // disk_full.
  Result<void> revoke(const TokenId& id);

  // Whether `node` may be admitted with it now. A node that has already used it is good again until
  // it expires: its answer may have been lost, and nobody else gains by it.
  TokenVerdict check(const TokenId& id, const NodeId& node, WallTime now) const;

  // Counts one use by `node`; durable when this returns. Fails with unauthenticated when check()
  // is not good, or as create() does; after a failure nothing was counted.
  Result<void> use(const TokenId& id, const NodeId& node, WallTime now);

  std::size_t size() const { return entries_.size(); }

 private:
  explicit TokenBook(storage::DurableRecord record) : record_(std::move(record)) {}
  Result<void> store();

  storage::DurableRecord record_;
  std::map<TokenId, StoredToken> entries_;
};

}  // namespace gpunode::security
