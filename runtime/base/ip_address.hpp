// Addresses of the internet protocol as numbers, and ranges of them ("10.0.0.0/8", "fd00::/8"), for
// those who decide by where somebody comes from. Plain values; nothing here asks a name server.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"

namespace gpunode {

// IPv4 stands as ::ffff:a.b.c.d, as it does at a listener of both families.
struct IpAddress {
  std::array<std::uint8_t, 16> bytes{};

  // "10.0.0.5", "::1", "fe80::1%eth0".
  static std::optional<IpAddress> parse(std::string_view text);
  std::string text() const;  // "10.0.0.5", "fe80::1"
  bool is_v4() const;
  bool is_loopback() const;
  // Of no network of a site's own (RFC 1918, 4193, 6598), no link's, not loopback.
  bool is_public() const;
  // The network that one party is given as a rule: /24, and /64 of IPv6.
  IpAddress network() const;
  // With all but the first `bits` zero.
  IpAddress first(unsigned bits) const;
  auto operator<=>(const IpAddress&) const = default;
};

// Where somebody may come from. Without a range: from anywhere.
class IpRanges {
 public:
  // Each "ADDRESS/BITS" or an address. Fails with invalid_argument, which names the range.
  static Result<IpRanges> parse(const std::vector<std::string>& texts);
  bool empty() const { return ranges_.empty(); }
  bool allow(const IpAddress& address) const;

 private:
  struct Range {
    IpAddress network;
    unsigned bits = 0;
  };
  std::vector<Range> ranges_;
};

}  // namespace gpunode
