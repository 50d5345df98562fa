// SHA-256, for whatever faces strangers or outlives a process: files, data sets, exports.
// (Digests among members that trust each other are XXH3: runtime/base/digest.hpp.)
// Cost: 1.5 to 2 GB/s a core with the processor's SHA instructions.
#pragma once

#include <array>
#include <compare>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/bytes.hpp"

struct evp_md_ctx_st;  // OpenSSL's

namespace gpunode::storage {

struct Sha256 {
  std::array<std::byte, 32> value{};

  auto operator<=>(const Sha256&) const = default;
  std::string text() const { return to_hex(value); }
  static std::optional<Sha256> from(ByteView bytes);          // exactly 32 bytes
  static std::optional<Sha256> parse(std::string_view text);  // 64 hexadecimal digits
};

Sha256 sha256_of(ByteView bytes);

// Hash of the concatenation of parts.
class Sha256Stream {
 public:
  Sha256Stream();
  void add(ByteView bytes);
  Sha256 finish();  // once, last

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

}  // namespace gpunode::storage
