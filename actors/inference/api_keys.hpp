// Keys of the HTTP front: who may ask what of it, and how much. What is kept of a key is its SHA-256, as
// it is 256 random bits long: a file of them gives nobody a key. Plain values, JSON; pure.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/security/crypto.hpp"

namespace gpunode::inference {

using ApiRights = std::uint32_t;
inline constexpr ApiRights kMayInfer = 1;    // have texts continued, and rows answered
inline constexpr ApiRights kMayList = 2;     // see which models there are
inline constexpr ApiRights kMayMetrics = 4;  // read the node's figures
inline constexpr ApiRights kMayGoFirst = 8;  // say which priority a text has

// "infer, list". Names with commas between them, or "all"; fails with invalid_argument.
std::string api_rights_text(ApiRights rights);
Result<ApiRights> parse_api_rights(std::string_view text);

struct ApiKey {
  std::string id;    // 12 hexadecimal digits, which the key itself begins with; not secret
  std::string name;  // for people
  security::Sha256 hash{};
  ApiRights may = kMayInfer | kMayList;
  std::vector<std::string> models = {};  // that it may use; empty: all
  // 0: as many as it likes.
  std::uint64_t requests_per_minute = 0;
  std::uint64_t tokens_per_minute = 0;  // of prompts and texts together
  std::uint64_t at_once = 0;            // requests under way
  std::int64_t created = 0;             // seconds since 1970, as the next one
  std::int64_t expires = 0;             // 0: never

  bool may_use(std::string_view model) const;
  bool is_over(std::int64_t now) const { return expires != 0 && now >= expires; }
};

class ApiKeys {
 public:
  // Fails with corrupted, naming the key and the field.
  static Result<ApiKeys> parse(std::string_view text);
  std::string text() const;

  const std::vector<ApiKey>& all() const { return keys_; }
  // Takes the same time whatever of the key is wrong. Null: it is none of these.
  const ApiKey* find(std::string_view key) const;
  const ApiKey* with_id(std::string_view id) const;

  // Sets id and hash, and gives the key itself, which is nowhere else. Fails with already_exists (the
  // name), invalid_argument (the name), resource_exhausted (too many).
  Result<std::string> add(ApiKey key);
  // By name or id; what it was. Fails with not_found.
  Result<ApiKey> remove(std::string_view name);

 private:
  std::vector<ApiKey> keys_;
};

}  // namespace gpunode::inference
