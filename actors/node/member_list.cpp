#include "actors/node/member_list.hpp"

#include "runtime/membership/membership_codec.hpp"

namespace gpunode::node {
namespace {

constexpr std::size_t kMaxRecords = 4096;

}  // namespace

Bytes join_records(const std::vector<Bytes>& records) {
  Bytes all;
  for (const Bytes& record : records) {
    for (int shift = 0; shift < 32; shift += 8)
      all.push_back(static_cast<std::byte>(record.size() >> shift));
    all.insert(all.end(), record.begin(), record.end());
  }
  return all;
}

std::vector<membership::MemberRecord> split_records(ByteView bytes) {
  std::vector<membership::MemberRecord> records;
  while (bytes.size() >= 4 && records.size() < kMaxRecords) {
    std::size_t length = 0;
    for (int i = 0; i < 4; ++i) length |= std::to_integer<std::size_t>(bytes[i]) << (8 * i);
    bytes = bytes.subspan(4);
    if (length > bytes.size()) break;
    if (auto record = membership::decode_record(bytes.first(length)))
      records.push_back(std::move(*record));
    bytes = bytes.subspan(length);
  }
  return records;
}

}  // namespace gpunode::node
