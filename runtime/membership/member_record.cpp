#include "runtime/membership/member_record.hpp"

#include <algorithm>
#include <string_view>

namespace gpunode::membership {

namespace {

// Little-endian numbers and length-prefixed text, appended in a fixed order.
struct Canonical {
  Bytes bytes;
  void number(std::uint64_t value) { append_number(bytes, value); }
  void raw(ByteView part) { bytes.insert(bytes.end(), part.begin(), part.end()); }
  void text(std::string_view text) {
    number(text.size());
    raw(as_bytes(text));
  }
  void list(const std::vector<std::string>& texts) {
    number(texts.size());
    for (const std::string& each : texts) text(each);
  }
};

bool endpoints_fit(const std::vector<std::string>& endpoints) {
  return endpoints.size() <= kMaxEndpoints && std::ranges::all_of(endpoints, [](auto& each) {
           return each.size() <= kMaxEndpointBytes;
         });
}

// The bytes of the character that the text begins with; 0 if it is none or a control character.
std::size_t plain_character(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = at(0);
  if (lead < 0x80) return lead < 0x20 || lead == 0x7F ? 0 : 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  char32_t point = lead & (0x7F >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
    point = point << 6 | (at(i) & 0x3F);
  }
  constexpr char32_t kLowest[] = {0, 0, 0xA0, 0x800, 0x10000};  // 0x80 to 0x9F are controls
  if (point < kLowest[length] || point > 0x10FFFF) return 0;
  return point >= 0xD800 && point <= 0xDFFF ? 0 : length;
}

}  // namespace

bool is_plain_text(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = plain_character(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

bool well_formed(const MemberRecord& record) {
  if (record.name.size() > kMaxNameBytes || record.labels.size() > kMaxLabels) return false;
  if (!is_plain_text(record.name)) return false;
  if (record.incarnation.counter > kMaxCounter) return false;
  if (record.signature.size() > kMaxSignatureBytes) return false;
  for (const auto& [key, value] : record.labels)
    if (key.size() > kMaxLabelBytes || value.size() > kMaxLabelBytes || !is_plain_text(key) ||
        !is_plain_text(value))
      return false;
  return endpoints_fit(record.control_endpoints) && endpoints_fit(record.bulk_endpoints) &&
         endpoints_fit(record.join_endpoints);
}

Bytes signed_bytes(const MemberRecord& record) {
  Canonical out;
  out.text("gpunode member record 1");
  out.raw(record.id.value);
  out.text(record.name);
  out.number(record.incarnation.boot);
  out.number(record.incarnation.counter);
  out.list(record.control_endpoints);
  out.list(record.bulk_endpoints);
  out.list(record.join_endpoints);
  out.raw(record.curve_key);
  out.raw(record.sign_key);
  out.number(record.labels.size());
  for (const auto& [key, value] : record.labels) {
    out.text(key);
    out.text(value);
  }
  out.number((record.dial_only ? 1u : 0u) | (record.left ? 2u : 0u));
  return out.bytes;
}

}  // namespace gpunode::membership
