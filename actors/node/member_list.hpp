// A list of member records as bytes: the last known peers on disk, and the part of a join answer
// that tells a new node whom to contact. Each record with its length in front, little-endian.
#pragma once

#include <optional>
#include <vector>

#include "actors/cluster_state.hpp"
#include "runtime/base/bytes.hpp"
#include "runtime/membership/member_record.hpp"
#include "runtime/security/join_server.hpp"

namespace gpunode::node {

// `records` as membership::encode_record gives them.
Bytes join_records(const std::vector<Bytes>& records);
// The records that can be read; what cannot is left out, never trusted further.
std::vector<membership::MemberRecord> split_records(ByteView bytes);

// Whom a join answer names to begin with, as far as its frame has room: this node, the one that stands
// between (`via`), and others by chance; `most` of them.
security::JoinServer::Seeds seeds_of(const ClusterSnapshot& cluster, const NodeId& own,
                                     std::optional<NodeId> via, std::size_t most);

}  // namespace gpunode::node
