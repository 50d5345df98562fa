// A list of member records as bytes: the last known peers on disk, and the part of a join answer
// that tells a new node whom to contact. Each record with its length in front, little-endian.
#pragma once

#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/membership/member_record.hpp"

namespace gpunode::node {

// `records` as membership::encode_record gives them.
Bytes join_records(const std::vector<Bytes>& records);
// The records that can be read; what cannot is left out, never trusted further.
std::vector<membership::MemberRecord> split_records(ByteView bytes);

}  // namespace gpunode::node
