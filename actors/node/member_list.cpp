#include "actors/node/member_list.hpp"

#include <algorithm>

#include "runtime/base/rng.hpp"
#include "runtime/membership/membership_codec.hpp"
#include "runtime/security/crypto.hpp"

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

security::JoinServer::Seeds seeds_of(const ClusterSnapshot& cluster, const NodeId& own,
                                     std::optional<NodeId> via, std::size_t most) {
  std::vector<std::pair<NodeId, const Bytes*>> found;
  for (const Bytes& record : cluster.records)
    if (auto member = membership::decode_record(record)) found.emplace_back(member->id, &record);
  // This node and the one that stands between come first, the others in an order of chance.
  Rng rng(security::random_nonce());
  for (std::size_t left = found.size(); left > 1; --left)
    std::swap(found[left - 1], found[rng.below(left)]);
  std::ranges::stable_partition(
      found, [&](const auto& one) { return one.first == own || one.first == via; });
  if (found.size() > most) found.resize(most);
  security::JoinServer::Seeds out;
  std::vector<Bytes> records;
  for (const auto& [node, record] : found) {
    out.nodes.push_back(node);
    records.push_back(*record);
  }
  out.records = join_records(records);
  return out;
}

}  // namespace gpunode::node
