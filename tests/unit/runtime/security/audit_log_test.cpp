// The audit log: it keeps what was said, and shows every kind of tampering.
#include "runtime/security/audit_log.hpp"

#include "tests/support/fault_file_system.hpp"
#include "tests/support/memory_file_system.hpp"
#include "tests/unit/runtime/security/now.hpp"

#include <gtest/gtest.h>

namespace gpunode::security {
namespace {

using namespace std::chrono_literals;
using testing::FaultFileSystem;
using testing::FileOperation;
using testing::MemoryFileSystem;

const storage::Path kFile = "/state/audit/000001.log";

struct Log {
  MemoryFileSystem disk;
  FaultFileSystem files{disk};
  Identity identity = Identity::create();

  Log() { EXPECT_TRUE(disk.create_folder("/state")); }
  AuditLog open() {
    auto log = AuditLog::open(files, "/state", identity);
    EXPECT_TRUE(log) << log.error().message();
    return std::move(*log);
  }
  void write(int entries) {
    AuditLog log = open();
    for (int number = 0; number < entries; ++number) {
      EXPECT_TRUE(log.append(kNow, "join_refused", {{"number", std::to_string(number)}}));
    }
  }
  std::string text(const storage::Path& path = kFile) {
    auto bytes = files.read(path, 1 << 20);
    EXPECT_TRUE(bytes);
    return std::string(as_text(*bytes));
  }
  void replace(const std::string& text, const storage::Path& path = kFile) {
    EXPECT_TRUE(files.write_atomic(path, {as_bytes(text)}));
  }
  std::string verdict() {
    auto log = AuditLog::open(files, "/state", identity);
    return log ? std::to_string(log->entries()) : log.error().detail;
  }
};

TEST(AuditLog, writes_its_head_no_more_often_than_it_may) {
  Log log;
  const auto cut_off_the_last = [&] {
    const std::string all = log.text();
    log.replace(all.substr(0, all.rfind('\n', all.size() - 2) + 1));
    const std::string verdict = log.verdict();
    log.replace(all);
    return verdict;
  };
  auto writer = AuditLog::open(log.files, "/state", log.identity, {.head_every = 1s});
  ASSERT_TRUE(writer);
  for (int entry = 0; entry < 3; ++entry)
    EXPECT_TRUE(writer->append(kNow + entry * 100ms, "join_refused", {}));
  log.disk.crash();
  EXPECT_EQ(log.verdict(), "3") << "all are on disk";
  EXPECT_EQ(cut_off_the_last(), "2");
  EXPECT_TRUE(writer->settle());
  EXPECT_NE(cut_off_the_last(), "2") << "it shows";
  EXPECT_TRUE(writer->append(kNow + 1500ms, "join_refused", {}));
  EXPECT_NE(cut_off_the_last(), "3") << "it shows at once, after that long";
}

TEST(AuditLog, keeps_entries_across_restarts_and_power_loss) {
  Log log;
  log.write(3);
  log.disk.crash();
  log.write(2);
  EXPECT_EQ(log.verdict(), "5");
  std::string text = log.text();
  EXPECT_TRUE(
      text.starts_with("{\"seq\":1,\"time\":\"2023-11-14T22:13:20Z\",\"event\":"
                       "\"join_refused\",\"number\":\"0\",\"prev\":\"0000"))
      << text;
}

TEST(AuditLog, is_empty_at_first) {
  Log log;
  EXPECT_EQ(log.verdict(), "0");
}

TEST(AuditLog, shows_a_changed_character) {
  Log log;
  log.write(3);
  const std::string whole = log.text();
  for (std::size_t at = 0; at < whole.size(); at += 3) {
    std::string changed = whole;
    changed[at] = changed[at] == 'x' ? 'y' : 'x';
    log.replace(changed);
    EXPECT_NE(log.verdict(), "3") << at;
  }
  log.replace(whole);
  EXPECT_EQ(log.verdict(), "3");
}

TEST(AuditLog, shows_dropped_swapped_and_doubled_lines) {
  Log log;
  log.write(3);
  std::string whole = log.text();
  std::size_t one = whole.find('\n') + 1, two = whole.find('\n', one) + 1;
  std::string first = whole.substr(0, one), second = whole.substr(one, two - one),
              third = whole.substr(two);
  for (const std::string& bad :
       {second + third, first + third, first + second, first, first + third + second,
        first + first + second + third, std::string()}) {
    log.replace(bad);
    EXPECT_NE(log.verdict(), "3");
    EXPECT_FALSE(AuditLog::open(log.files, "/state", log.identity));
  }
}

TEST(AuditLog, shows_a_missing_file_and_another_nodes_log) {
  Log log;
  log.write(3);
  log.write(2);
  Identity other = Identity::create();
  EXPECT_FALSE(AuditLog::open(log.files, "/state", other));
  ASSERT_TRUE(log.disk.remove("/state/audit/000002.log"));
  EXPECT_NE(log.verdict().find("missing"), std::string::npos);
}

TEST(AuditLog, names_file_and_line) {
  Log log;
  log.write(3);
  std::string text = log.text();
  text[text.find("\"number\":\"1\"") + 10] = '7';
  log.replace(text);
  EXPECT_EQ(log.verdict(), "/state/audit/000001.log:2: the entry was changed");
}

TEST(AuditLog, passes_over_a_torn_last_line) {
  Log log;
  log.write(2);
  log.replace(log.text() + "{\"seq\":3,\"time\":\"20");
  EXPECT_EQ(log.verdict(), "2");
  log.write(1);
  EXPECT_EQ(log.verdict(), "3");
}

TEST(AuditLog, stays_valid_whatever_write_fails) {
  for (auto operation : {FileOperation::append, FileOperation::sync, FileOperation::rename,
                         FileOperation::write_new, FileOperation::sync_folder}) {
    for (std::uint64_t nth = 0; nth < 3; ++nth) {
      Log log;
      AuditLog open = log.open();
      ASSERT_TRUE(open.append(kNow, "a", {}));
      log.files.fail(operation, nth);
      int failed = 0;
      for (int round = 0; round < 4; ++round) failed += !open.append(kNow, "b", {}).has_value();
      log.files.heal();
      EXPECT_LE(failed, 2);
      EXPECT_TRUE(open.append(kNow, "c", {}));
      EXPECT_TRUE(AuditLog::open(log.files, "/state", log.identity)) << log.verdict();
      log.disk.crash();
      EXPECT_TRUE(AuditLog::open(log.files, "/state", log.identity)) << log.verdict();
    }
  }
}

TEST(AuditLog, cannot_be_forged_through_a_name) {
  Log log;
  AuditLog open = log.open();
  ASSERT_TRUE(
      open.append(kNow, "node_admitted", {{"name", "x\",\"sig\":\"\n{\"seq\":2}\\\xff\x01"}}));
  EXPECT_EQ(log.verdict(), "1");
  std::string text = log.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_NE(text.find("\\u00ff\\u0001"), std::string::npos);
  ASSERT_TRUE(open.append(kNow, "node_admitted", {{"name", "J\xc3\xbcrgen"}}));
  EXPECT_NE(log.text().find("J\xc3\xbcrgen"), std::string::npos);
}

TEST(AuditLog, keeps_as_much_of_a_value_as_fits_in_a_line) {
  Log log;
  AuditLog open = log.open();
  ASSERT_TRUE(open.append(kNow, "a", {{"b", std::string(100'000, 'x')}}));
  ASSERT_TRUE(open.append(kNow, "a", {{"b", std::string(1023, 'x') + "\xc3\xbc"}}));
  EXPECT_LT(log.text().size(), 4000u);
  EXPECT_EQ(log.text().find("\xc3"), std::string::npos);
  EXPECT_EQ(log.verdict(), "2");
}

TEST(AuditLog, gives_up_its_oldest_files_and_goes_on) {
  Log log;
  const AuditLog::Limits small{2000, 6000, 100};
  auto open = AuditLog::open(log.files, "/state", log.identity, small);
  ASSERT_TRUE(open);
  std::vector<AuditHead> heads;
  for (int number = 0; number < 60; ++number) {
    ASSERT_TRUE(open->append(kNow, "a", {{"number", std::to_string(number)}}));
    heads.push_back(open->head());
  }
  std::uint64_t bytes = 0;
  const auto listed = log.disk.list("/state/audit");
  ASSERT_TRUE(listed);
  for (const auto& entry : *listed) bytes += entry.size_bytes;
  EXPECT_LE(bytes, 8000u);
  EXPECT_FALSE(log.disk.exists(kFile));
  log.disk.crash();
  auto again = AuditLog::open(log.files, "/state", log.identity, small);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->entries(), 60u);
  for (const AuditHead& head : heads) EXPECT_TRUE(again->holds(head));
  AuditHead other = heads.back();
  other.last[3] ^= std::byte{1};
  EXPECT_FALSE(again->holds(other));
  EXPECT_FALSE(again->holds({61, heads.back().last}));
  ASSERT_TRUE(again->append(kNow, "a", {}));
}

TEST(AuditLog, takes_files_that_a_crash_kept_from_being_removed_for_given_up) {
  Log log;
  const AuditLog::Limits small{500, 1500, 100};
  auto open = AuditLog::open(log.files, "/state", log.identity, small);
  ASSERT_TRUE(open);
  log.files.fail(FileOperation::remove, 0);
  while (log.files.fired() == 0) ASSERT_TRUE(open->append(kNow, "a", {}));
  ASSERT_TRUE(log.disk.exists(kFile));
  EXPECT_EQ(log.verdict(), std::to_string(open->entries()));
  EXPECT_FALSE(log.disk.exists(kFile));
}

TEST(AuditLog, keeps_few_files_however_often_the_node_starts) {
  Log log;
  for (int boot = 0; boot < 10; ++boot) {
    auto open = AuditLog::open(log.files, "/state", log.identity, {1 << 20, 1 << 20, 4});
    ASSERT_TRUE(open) << open.error().message();
    ASSERT_TRUE(open->append(kNow, "a", {}));
  }
  EXPECT_EQ(log.disk.list("/state/audit")->size(), 4u);
  EXPECT_EQ(log.verdict(), "10");
}

TEST(AuditLog, misses_its_folder) {
  Log log;
  log.write(3);
  ASSERT_TRUE(log.disk.remove("/state/audit"));
  EXPECT_NE(log.verdict().find("missing"), std::string::npos);
}

TEST(AuditLog, begins_anew_and_says_so_where_it_does_not_verify) {
  for (const bool too_long : {false, true}) {
    Log log;
    log.write(3);
    log.replace(too_long ? std::string(kLargestAuditFile + 1, 'x') : std::string("{}\n"));
    auto anew = AuditLog::open_or_begin_anew(log.files, "/state", log.identity, kNow, {});
    ASSERT_TRUE(anew) << anew.error().message();
    EXPECT_EQ(anew->entries(), 1u);
    EXPECT_NE(log.text().find("audit_begun_anew"), std::string::npos);
    EXPECT_NE(log.text().find(too_long ? "is longer" : "is not an entry"), std::string::npos);
    EXPECT_TRUE(log.disk.exists("/state/audit.damaged-1/000001.log"));
    EXPECT_TRUE(log.disk.exists("/state/audit.damaged-1/head"));
    ASSERT_TRUE(log.disk.remove("/state/audit"));
    ASSERT_TRUE(AuditLog::open_or_begin_anew(log.files, "/state", log.identity, kNow, {}));
    EXPECT_TRUE(log.disk.exists("/state/audit.damaged-2/head"));
    EXPECT_EQ(log.verdict(), "1");
  }
}

}  // namespace
}  // namespace gpunode::security
