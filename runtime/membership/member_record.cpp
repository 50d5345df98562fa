#include "runtime/membership/member_record.hpp"

#include <algorithm>
#include <string_view>

#include "runtime/base/utf8.hpp"

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

// Of a well-formed character: those of ASCII, and U+0080 to U+009F.
bool is_control(std::string_view character) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  return at(0) < 0x20 || at(0) == 0x7F || (at(0) == 0xC2 && at(1) < 0xA0);
}

}  // namespace

bool is_plain_text(std::string_view text) {
  for (std::size_t length; (length = utf8_length(text)) > 0; text.remove_prefix(length))
    if (is_control(text)) return false;
  return text.empty();
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
  out.text("gpunode member record 2");
  out.raw(record.id.value);
  out.text(record.name);
  out.number(record.incarnation.boot);
  out.number(record.incarnation.counter);
  out.list(record.control_endpoints);
  out.list(record.bulk_endpoints);
  out.list(record.join_endpoints);
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
