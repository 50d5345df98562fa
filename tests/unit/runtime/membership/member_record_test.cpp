#include "runtime/membership/member_record.hpp"

#include <gtest/gtest.h>

#include <set>

#include "tests/unit/runtime/membership/records.hpp"

namespace gpunode::membership {
namespace {

TEST(MemberRecord, EveryFieldButTheSignatureIsSigned) {
  const MemberRecord base = test_record(1);
  std::vector<MemberRecord> variants(14, base);
  variants[1].id = test_id(2);
  variants[2].name = "other";
  variants[3].incarnation.boot++;
  variants[4].incarnation.counter++;
  variants[5].control_endpoints.pop_back();
  variants[6].bulk_endpoints[0] += "0";
  variants[7].join_endpoints.clear();
  variants[8].curve_key[0] = std::byte{1};
  variants[9].sign_key[0] = std::byte{9};
  variants[10].labels["gpu"] = "none";
  variants[11].protocol_version = 2;
  variants[12].dial_only = true;
  variants[13].left = true;
  std::set<Bytes> seen;
  for (const MemberRecord& variant : variants) seen.insert(signed_bytes(variant));
  EXPECT_EQ(seen.size(), variants.size());
  MemberRecord resigned = base;
  resigned.signature.clear();
  EXPECT_EQ(signed_bytes(resigned), signed_bytes(base));
}

TEST(MemberRecord, MovingTextFromOneFieldToTheNextChangesTheSignedBytes) {
  MemberRecord one = test_record(1), other = test_record(1);
  one.control_endpoints = {"ab", "c"};
  other.control_endpoints = {"a", "bc"};
  EXPECT_NE(signed_bytes(one), signed_bytes(other));
}

TEST(MemberRecord, BoundsAreKept) {
  EXPECT_TRUE(well_formed(test_record(1)));
  MemberRecord record = test_record(1);
  record.name.assign(kMaxNameBytes + 1, 'x');
  EXPECT_FALSE(well_formed(record));
  record = test_record(1);
  record.control_endpoints.assign(kMaxEndpoints + 1, "tcp://a:1");
  EXPECT_FALSE(well_formed(record));
  record = test_record(1);
  record.labels["long"] = std::string(kMaxLabelBytes + 1, 'x');
  EXPECT_FALSE(well_formed(record));
  record = test_record(1);
  record.incarnation.counter = kMaxCounter + 1;
  EXPECT_FALSE(well_formed(record));
}

}  // namespace
}  // namespace gpunode::membership
