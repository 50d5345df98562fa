// Records and signatures for the tests of this folder: a "signature" is a digest keyed by the id.
#pragma once

#include <cstring>
#include <string>

#include "runtime/membership/member_record.hpp"

namespace gpunode::membership {

inline NodeId test_id(int index) {
  NodeId id;
  id.value[0] = static_cast<std::byte>(index);
  id.value[31] = std::byte{0xab};
  return id;
}

inline Bytes test_sign(const NodeId& owner, ByteView message) {
  const Digest digest = digest_of(message, static_cast<std::uint64_t>(owner.value[0]));
  return to_bytes(std::as_bytes(std::span(&digest, 1)));
}

inline MemberRecord test_record(int index, Boot boot = 1, std::uint64_t counter = 0) {
  MemberRecord record;
  record.id = test_id(index);
  record.name = "node" + std::to_string(index);
  record.incarnation = {boot, counter};
  record.control_endpoints = {"tcp://10.0.0." + std::to_string(index) + ":7400",
                              "tcp://[::1]:7400"};
  record.bulk_endpoints = {"tcp://10.0.0.1:7401"};
  record.join_endpoints = {"tcp://10.0.0.1:7402"};
  std::memcpy(record.sign_key.data(), record.id.value.data(), 32);
  record.labels = {{"region", "west"}, {"gpu", "h200"}};
  record.signature = test_sign(record.id, signed_bytes(record));
  return record;
}

inline RecordSigning test_signing(int index) {
  RecordSigning signing;
  signing.sign = [index](ByteView message) { return test_sign(test_id(index), message); };
  signing.verify = [](const NodeId& owner, const PublicKey&, ByteView message, ByteView signature) {
    return test_sign(owner, message) == to_bytes(signature);
  };
  return signing;
}

}  // namespace gpunode::membership
