#include "runtime/membership/member_record.hpp"

#include <gtest/gtest.h>

#include <set>

#include "tests/unit/runtime/membership/records.hpp"

namespace gpunode::membership {
namespace {

TEST(MemberRecord, EveryFieldButTheSignatureIsSigned) {
  const MemberRecord base = test_record(1);
  std::vector<MemberRecord> variants(12, base);
  variants[1].id = test_id(2);
  variants[2].name = "other";
  variants[3].incarnation.boot++;
  variants[4].incarnation.counter++;
  variants[5].control_endpoints.pop_back();
  variants[6].bulk_endpoints[0] += "0";
  variants[7].join_endpoints.clear();
  variants[8].sign_key[0] = std::byte{9};
  variants[9].labels["gpu"] = "none";
  variants[10].dial_only = true;
  variants[11].left = true;
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

TEST(MemberRecord, AcceptsNamesInAnyLanguageAndNoBytesThatWouldSpoilALog) {
  for (const char* good : {"", "a", "node-1", "\u00fcn\u00ef", "\u6a21\u578b", "\U0001F600"})
    EXPECT_TRUE(is_plain_text(good)) << good;
  for (const char* bad : {"a\nb", "\x1b[2J", "\x7f", "\xff\xfe", "\xc3", "\xc0\xaf", "\xc2\x85",
                          "\xed\xa0\x80", "\xf4\x90\x80\x80", "a\xe2\x82"})
    EXPECT_FALSE(is_plain_text(bad)) << bad;
  MemberRecord record;
  record.name = "a\nb";
  EXPECT_FALSE(well_formed(record));
  record.name = "a";
  EXPECT_TRUE(well_formed(record));
  record.labels["zone"] = "\x1b[2J";
  EXPECT_FALSE(well_formed(record));
}

}  // namespace
}  // namespace gpunode::membership
