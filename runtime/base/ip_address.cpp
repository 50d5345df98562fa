#include "runtime/base/ip_address.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace gpunode {
namespace {

constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr unsigned kMappedBits = 96;

bool is_in(const IpAddress& address, const char* network, unsigned bits) {
  const auto of = IpAddress::parse(network);
  return address.first(bits) == of->first(bits);
}

}  // namespace

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
  const std::string plain(text.substr(0, text.find('%')));
  IpAddress address;
  in_addr v4{};
  if (::inet_pton(AF_INET, plain.c_str(), &v4) == 1) {
    std::ranges::copy(kMapped, address.bytes.begin());
    std::memcpy(address.bytes.data() + kMapped.size(), &v4, sizeof v4);
    return address;
  }
  if (::inet_pton(AF_INET6, plain.c_str(), address.bytes.data()) == 1) return address;
  return std::nullopt;
}

std::string IpAddress::text() const {
  char text[INET6_ADDRSTRLEN] = {};
  const bool v4 = is_v4();
  ::inet_ntop(v4 ? AF_INET : AF_INET6, bytes.data() + (v4 ? kMapped.size() : 0), text, sizeof text);
  return text;
}

bool IpAddress::is_v4() const {
  return std::equal(kMapped.begin(), kMapped.end(), bytes.begin());
}

bool IpAddress::is_loopback() const {
  return is_in(*this, "127.0.0.0", kMappedBits + 8) || is_in(*this, "::1", 128);
}

bool IpAddress::is_public() const {
  if (*this == IpAddress{} || is_loopback()) return false;
  if (!is_v4()) return !is_in(*this, "fc00::", 7) && !is_in(*this, "fe80::", 10);
  struct Own {
    const char* network;
    unsigned bits;
  };
  constexpr Own kOwn[] = {{"0.0.0.0", 8},      {"10.0.0.0", 8},    {"100.64.0.0", 10},
                          {"169.254.0.0", 16}, {"172.16.0.0", 12}, {"192.168.0.0", 16}};
  return std::ranges::none_of(
      kOwn, [&](const Own& own) { return is_in(*this, own.network, kMappedBits + own.bits); });
}

IpAddress IpAddress::network() const {
  return first(is_v4() ? kMappedBits + 24 : 64);
}

IpAddress IpAddress::first(unsigned bits) const {
  IpAddress masked = *this;
  for (unsigned index = 0; index < masked.bytes.size(); ++index) {
    const unsigned kept = bits > 8 * index ? std::min(8u, bits - 8 * index) : 0;
    masked.bytes[index] &= static_cast<std::uint8_t>(0xff00u >> kept);
  }
  return masked;
}

Result<IpRanges> IpRanges::parse(const std::vector<std::string>& texts) {
  IpRanges ranges;
  for (const std::string& text : texts) {
    const auto slash = text.find('/');
    const auto address = IpAddress::parse(std::string_view(text).substr(0, slash));
    const unsigned longest = address && address->is_v4() ? 32 : 128;
    unsigned bits = longest;
    bool good = address.has_value();
    if (slash != std::string::npos) {
      const char* end = text.data() + text.size();
      const auto read = std::from_chars(text.data() + slash + 1, end, bits);
      good = good && read.ec == std::errc() && read.ptr == end && bits <= longest;
    }
    if (!good)
      return {ErrorCode::invalid_argument,
              "'" + text + "' is no range of addresses: write 10.0.0.0/8, 192.0.2.7 or fd00::/8"};
    bits += 128 - longest;
    ranges.ranges_.push_back({address->first(bits), bits});
  }
  return ranges;
}

bool IpRanges::allow(const IpAddress& address) const {
  return ranges_.empty() || std::ranges::any_of(ranges_, [&](const Range& range) {
           return address.first(range.bits) == range.network;
         });
}

}  // namespace gpunode
