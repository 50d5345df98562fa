#include "actors/inference/http_audit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "actors/inference/key_ring.hpp"
#include "tests/support/memory_file_system.hpp"

namespace gpunode::inference {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Audited : public ::testing::Test {
 protected:
  // What a node notes; another start of it with `anew`.
  std::vector<std::string> noted(bool anew = false) {
    if (anew || !audit_) audit_.emplace(files_, "/");
    std::vector<std::string> told;
    audit_->look_at_keys([&](std::string_view event, const auto& fields) {
      if (!writes_) return false;
      std::string line(event);
      for (const security::AuditField& field : fields) line += " " + field.name + "=" + field.value;
      told.push_back(line);
      return true;
    });
    return told;
  }
  void add(const char* name) {
    ApiKey key;
    key.name = name;
    key.may = kMayInfer;
    secret_ = *keys_.add(key);
    write();
  }
  void write() {
    const std::string text = keys_.text();
    ASSERT_TRUE(files_.write_atomic(storage::Path("/") / KeyRing::kFile, {as_bytes(text)}));
  }

  gpunode::testing::MemoryFileSystem files_;
  std::optional<HttpAudit> audit_;
  ApiKeys keys_;
  std::string secret_;
  bool writes_ = true;
};

TEST_F(Audited, KeysThatComeAndGoAreNotedOnceAndWithoutThemselves) {
  EXPECT_THAT(noted(), IsEmpty());
  add("bob");
  const auto told = noted();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told[0], AllOf(HasSubstr("http_key_created key=bob id="), HasSubstr("may=infer"),
                             HasSubstr("models=all"), Not(HasSubstr(secret_))));
  EXPECT_THAT(noted(), IsEmpty());
  ASSERT_TRUE(keys_.remove("bob"));
  write();
  EXPECT_THAT(noted(), ElementsAre(HasSubstr("http_key_revoked key=bob id=")));
  EXPECT_THAT(noted(), IsEmpty());
}

TEST_F(Audited, WhatChangedWhileNoNodeRanIsNotedAtTheNextStart) {
  add("bob");
  EXPECT_EQ(noted().size(), 1u);
  EXPECT_THAT(noted(true), IsEmpty()) << "it is known to the next start";
  ASSERT_TRUE(keys_.remove("bob"));
  add("eve");
  EXPECT_THAT(noted(true), ElementsAre(HasSubstr("http_key_created key=eve"),
                                       HasSubstr("http_key_revoked key=bob")));
}

TEST_F(Audited, AKeyThatIsGivenMoreIsAChange) {
  add("bob");
  EXPECT_EQ(noted().size(), 1u);
  std::string text = keys_.text();
  const auto at = text.find("\"infer\"");
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at, 7, "\"infer,metrics\"");
  ASSERT_TRUE(files_.write_atomic(storage::Path("/") / KeyRing::kFile, {as_bytes(text)}));
  EXPECT_THAT(noted(), ElementsAre(HasSubstr("http_key_changed key=bob")));
}

TEST_F(Audited, WhatCouldNotBeWrittenIsToldAgain) {
  add("bob");
  writes_ = false;
  EXPECT_THAT(noted(), IsEmpty());
  writes_ = true;
  EXPECT_EQ(noted().size(), 1u);
}

TEST_F(Audited, RefusalsAreCountedByKey) {
  HttpAudit audit(files_, "/");
  audit.refused("bob", "a request over its quota");
  audit.refused("bob", "no right to /metrics");
  audit.refused("", "no good key for /v1/models");
  std::vector<std::string> told;
  const HttpAudit::Note note = [&](std::string_view event, const auto& fields) {
    told.push_back(std::string(event) + "|" + fields[0].value + "|" + fields[1].value + "|" +
                   fields[2].value);
    return true;
  };
  audit.tell_refusals(note);
  EXPECT_THAT(told, ElementsAre("http_refused||1|no good key for /v1/models",
                                "http_refused|bob|2|no right to /metrics"));
  told.clear();
  audit.tell_refusals(note);
  EXPECT_THAT(told, IsEmpty());
}

}  // namespace
}  // namespace gpunode::inference
