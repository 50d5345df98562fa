#include "runtime/membership/member_record.hpp"

#include <algorithm>
#include <string_view>

namespace gpunode::membership {

namespace {

// Little-endian numbers and length-prefixed text, appended in a fixed order.
class Canonical {
 public:
  void number(std::uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8)
      bytes_.push_back(static_cast<std::byte>(value >> shift));
  }
  void raw(ByteView bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  void text(std::string_view text) {
    number(text.size());
    raw(as_bytes(text));
  }
  void list(const std::vector<std::string>& texts) {
    number(texts.size());
    for (const std::string& each : texts) text(each);
  }
  Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

bool endpoints_fit(const std::vector<std::string>& endpoints) {
  return endpoints.size() <= kMaxEndpoints &&
         std::all_of(endpoints.begin(), endpoints.end(),
                     [](const std::string& each) { return each.size() <= kMaxEndpointBytes; });
}

}  // namespace

bool well_formed(const MemberRecord& record) {
  if (record.name.size() > kMaxNameBytes || record.labels.size() > kMaxLabels) return false;
  if (record.incarnation.counter > kMaxCounter) return false;
  if (record.signature.size() > kMaxSignatureBytes) return false;
  for (const auto& [key, value] : record.labels)
    if (key.size() > kMaxLabelBytes || value.size() > kMaxLabelBytes) return false;
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
  out.number(record.protocol_version);
  out.number((record.dial_only ? 1u : 0u) | (record.left ? 2u : 0u));
  return out.take();
}

}  // namespace gpunode::membership
