// The issuer's book of join tokens. Apart from join_token.cpp because it alone keeps state: what is
// written here decides whether a token works a second time, so each use costs two fsyncs. Owned by
// the control thread.
#include "runtime/security/detail/join_records.hpp"
#include "runtime/security/detail/private_record.hpp"
#include "runtime/security/join_token.hpp"

#include <algorithm>

namespace gpunode::security {

namespace {

constexpr storage::RecordFormat kFormat{{'G', 'P', 'T', 'K'}, 1};
constexpr std::chrono::hours kRemembered{24};  // an expired token is named as such so long
constexpr std::chrono::hours kMaxTerm{24 * 30};
constexpr std::uint32_t kMaxUses = 1000;

Result<void> check_bounds(const TokenBook::Options& options) {
  if (options.term <= std::chrono::seconds(0) || options.term > kMaxTerm) {
    return {ErrorCode::invalid_argument, "a join token lives from one second to 30 days"};
  }
  if (options.uses == 0 || options.uses > kMaxUses) {
    return {ErrorCode::invalid_argument, "a join token can be used from 1 to 1000 times"};
  }
  const bool too_long = std::ranges::any_of(options.endpoints, [](const std::string& endpoint) {
    return endpoint.size() > JoinToken::kMaxEndpointBytes;
  });
  if (options.endpoints.empty() || options.endpoints.size() > JoinToken::kMaxEndpoints ||
      too_long) {
    return {ErrorCode::invalid_argument,
            "a join token names from 1 to 8 join endpoints of at most 128 characters"};
  }
  if (options.label.size() > JoinToken::kMaxLabelBytes)
    return {ErrorCode::invalid_argument, "a join token has a label of at most 64 bytes"};
  return {};
}

}  // namespace

Result<TokenBook> TokenBook::open(storage::FileSystem& files,
                                  const storage::Path& state_directory) {
  storage::Path path = state_directory / "join_tokens";
  auto stored = detail::load_private(files, path, kFormat);
  if (!stored) return stored.error().within("join tokens");
  TokenBook book(storage::DurableRecord(files, path, kFormat));
  if (!stored->has_value()) return book;
  auto tokens = detail::decode_tokens(**stored);
  wipe(**stored);
  if (!tokens) return tokens.error().within(path.string());
  book.entries_ = std::move(*tokens);
  return book;
}

Result<JoinToken> TokenBook::create(const Options& options, const ClusterIdentity& cluster,
                                    const Identity& issuer, WallTime now) {
  if (auto good = check_bounds(options); !good) return good.error();
  std::erase_if(entries_,
                [&](const auto& entry) { return entry.second.expires + kRemembered <= now; });
  if (entries_.size() >= kLimit) {
    return {ErrorCode::resource_exhausted,
            "1024 join tokens of this node are remembered; wait until some have expired, or make "
            "the token on another node"};
  }
  JoinToken token;
  token.cluster = cluster;
  token.issuer = issuer.id();
  token.issuer_curve = issuer.curve_key();
  token.id = random_array<16>();
  token.secret = random_secret<32>();
  token.expires = std::chrono::time_point_cast<std::chrono::milliseconds>(now + options.term);
  token.endpoints = options.endpoints;
  StoredToken& kept = entries_[token.id];
  kept.proof = token.proof_key();
  kept.expires = token.expires;
  kept.uses = options.uses;
  kept.rights = options.rights;
  kept.label = options.label;
  if (auto stored = store(); !stored) {
    entries_.erase(token.id);
    return stored.error().within("join tokens");
  }
  return token;
}

const Secret<32>* TokenBook::proof_key(const TokenId& id) const {
  auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : &found->second.proof;
}

const StoredToken* TokenBook::find(const TokenId& id) const {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : &found->second;
}

Rights TokenBook::rights(const TokenId& id) const {
  const StoredToken* token = find(id);
  return token ? token->rights : Rights{0};
}

std::vector<TokenId> TokenBook::open(WallTime now) const {
  std::vector<TokenId> ids;
  for (const auto& [id, token] : entries_)
    if (now < token.expires && token.used < token.uses) ids.push_back(id);
  return ids;
}

Result<void> TokenBook::revoke(const TokenId& id) {
  auto entry = entries_.extract(id);
  if (!entry) return {ErrorCode::not_found, "this node made no such token"};
  if (auto stored = store(); !stored) {
    entries_.insert(std::move(entry));
    return stored.error().within("join tokens");
  }
  return {};
}

TokenVerdict TokenBook::check(const TokenId& id, const NodeId& node, WallTime now) const {
  auto found = entries_.find(id);
  if (found == entries_.end()) return TokenVerdict::unknown;
  const StoredToken& entry = found->second;
  if (now >= entry.expires) return TokenVerdict::expired;
  if (std::ranges::find(entry.used_by, node) != entry.used_by.end()) return TokenVerdict::good;
  return entry.used >= entry.uses ? TokenVerdict::used_up : TokenVerdict::good;
}

Result<void> TokenBook::use(const TokenId& id, const NodeId& node, WallTime now) {
  if (check(id, node, now) != TokenVerdict::good) {
    return {ErrorCode::unauthenticated, "the join token is unknown, expired or used up"};
  }
  StoredToken& entry = entries_.find(id)->second;
  if (std::ranges::find(entry.used_by, node) != entry.used_by.end()) return {};
  entry.used_by.push_back(node);
  ++entry.used;
  if (auto stored = store(); !stored) {
    entry.used_by.pop_back();
    --entry.used;
    return stored.error().within("join tokens");
  }
  if (entry.used_by.size() > StoredToken::kRemembered) entry.used_by.pop_front();
  return {};
}

Result<void> TokenBook::store() {
  Bytes bytes = detail::encode_tokens(entries_);
  auto stored = record_.store(bytes);
  wipe(bytes);
  return stored;
}

}  // namespace gpunode::security
