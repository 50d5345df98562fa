// Join tokens: their text, and the book that lets each be used as often as it may and never more.
#include "runtime/security/join_token.hpp"

#include "runtime/base/clock.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/storage/posix_file_system.hpp"
#include "tests/support/fault_file_system.hpp"
#include "tests/support/ids.hpp"
#include "tests/support/memory_file_system.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

namespace gpunode::security {
namespace {

using namespace std::chrono_literals;
using testing::FaultFileSystem;
using testing::MemoryFileSystem;

struct Issuer {
  MemoryFileSystem disk;
  FaultFileSystem files{disk};
  storage::Path path = "/state";
  FakeClock clock;
  Identity identity = Identity::create();
  ClusterIdentity cluster{{random_array<16>()}, identity.id()};

  Issuer() { EXPECT_TRUE(disk.create_folder(path)); }
  TokenBook open() {
    auto book = TokenBook::open(files, path);
    EXPECT_TRUE(book);
    return std::move(*book);
  }
  JoinToken create(TokenBook& book, std::uint32_t uses = 1) {
    auto token = book.create({15min, uses, {"tcp://10.0.0.5:7600", "tcp://[fe80::1]:7600"}},
                             cluster, identity, clock.wall());
    EXPECT_TRUE(token);
    return std::move(*token);
  }
};

TEST(JoinToken, survives_its_text) {
  Issuer issuer;
  TokenBook book = issuer.open();
  JoinToken token = issuer.create(book);
  std::string text = token.text();
  EXPECT_TRUE(text.starts_with("gpn1_"));
  EXPECT_EQ(
      text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"),
      std::string::npos);
  auto parsed = JoinToken::parse("  " + text + "\n");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->cluster, token.cluster);
  EXPECT_EQ(parsed->issuer, issuer.identity.id());
  EXPECT_EQ(parsed->issuer_curve, issuer.identity.curve_key());
  EXPECT_EQ(parsed->id, token.id);
  EXPECT_EQ(parsed->expires, token.expires);
  EXPECT_EQ(parsed->endpoints, token.endpoints);
  EXPECT_TRUE(constant_time_equal(parsed->secret.view(), token.secret.view()));
}

TEST(JoinToken, tells_wrong_texts_apart) {
  auto code = [](std::string_view text) {
    auto parsed = JoinToken::parse(text);
    EXPECT_FALSE(parsed);
    return parsed.error().code;
  };
  auto sentence = [](std::string_view text) { return JoinToken::parse(text).error().detail; };
  EXPECT_EQ(code(""), ErrorCode::invalid_argument);
  EXPECT_NE(sentence("hello").find("not a join token"), std::string::npos);
  EXPECT_NE(sentence("gpn_x").find("not a join token"), std::string::npos);
  EXPECT_EQ(code("gpn2_abc"), ErrorCode::protocol_mismatch);
  EXPECT_EQ(code("gpn17_abc"), ErrorCode::protocol_mismatch);
  EXPECT_NE(sentence("gpn1_").find("cut off"), std::string::npos);
  EXPECT_NE(sentence("gpn1_%%%").find("cut off"), std::string::npos);
}

TEST(JoinToken, refuses_every_cut_and_every_changed_character) {
  Issuer issuer;
  TokenBook book = issuer.open();
  std::string text = issuer.create(book).text();
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(JoinToken::parse(text.substr(0, size))) << size;
  }
  for (std::size_t at = 5; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] = changed[at] == 'A' ? 'B' : 'A';
    auto parsed = JoinToken::parse(changed);
    EXPECT_FALSE(parsed) << at;
    if (!parsed) {
      EXPECT_EQ(parsed.error().detail.find(changed.substr(20, 20)), std::string::npos);
    }
  }
}

TEST(JoinToken, survives_garbage) {
  Rng rng(1);
  for (int round = 0; round < 2000; ++round) {
    Bytes bytes(rng.below(400));
    for (auto& byte : bytes) byte = static_cast<std::byte>(rng.next());
    EXPECT_FALSE(JoinToken::parse("gpn1_" + to_base64url(bytes)));
  }
}

TEST(TokenBook, keeps_no_secret_on_disk) {
  Issuer issuer;
  TokenBook book = issuer.open();
  JoinToken token = issuer.create(book);
  auto bytes = issuer.files.read(issuer.path / "join_tokens", 1 << 20);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(as_text(*bytes).find(as_text(token.secret.view())), std::string_view::npos);
  EXPECT_NE(as_text(*bytes).find(as_text(token.proof_key().view())), std::string_view::npos);
}

TEST(TokenBook, writes_a_private_file_and_refuses_one_that_others_can_read) {
  testing::TemporaryFolder folder;
  storage::PosixFileSystem files;
  Issuer issuer;
  auto book = TokenBook::open(files, folder.path());
  ASSERT_TRUE(book);
  ASSERT_TRUE(book->create({15min, 1, {"tcp://a:1"}}, issuer.cluster, issuer.identity,
                           issuer.clock.wall()));
  auto path = folder.path() / "join_tokens";
  EXPECT_EQ(static_cast<unsigned>(std::filesystem::status(path).permissions()), 0600u);
  std::filesystem::permissions(path, std::filesystem::perms(0640));
  auto again = TokenBook::open(files, folder.path());
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::permission_denied);
}

TEST(TokenBook, lets_a_single_use_token_in_once_even_after_power_loss) {
  Issuer issuer;
  TokenBook book = issuer.open();
  JoinToken token = issuer.create(book);
  ASSERT_EQ(book.check(token.id, node(1), issuer.clock.wall()), TokenVerdict::good);
  ASSERT_TRUE(book.use(token.id, node(1), issuer.clock.wall()));
  EXPECT_EQ(book.check(token.id, node(2), issuer.clock.wall()), TokenVerdict::used_up);
  EXPECT_FALSE(book.use(token.id, node(2), issuer.clock.wall()));
  issuer.disk.crash();
  TokenBook restarted = issuer.open();
  EXPECT_EQ(restarted.check(token.id, node(2), issuer.clock.wall()), TokenVerdict::used_up);
  EXPECT_FALSE(restarted.use(token.id, node(2), issuer.clock.wall()));
}

TEST(TokenBook, lets_the_node_that_used_it_ask_again) {
  Issuer issuer;
  TokenBook book = issuer.open();
  JoinToken token = issuer.create(book);
  ASSERT_TRUE(book.use(token.id, node(1), issuer.clock.wall()));
  EXPECT_EQ(book.check(token.id, node(1), issuer.clock.wall()), TokenVerdict::good);
  EXPECT_TRUE(book.use(token.id, node(1), issuer.clock.wall()));
}

TEST(TokenBook, counts_uses) {
  Issuer issuer;
  TokenBook book = issuer.open();
  JoinToken token = issuer.create(book, 3);
  for (int number = 1; number <= 3; ++number) {
    EXPECT_TRUE(book.use(token.id, node(number), issuer.clock.wall()));
  }
  EXPECT_EQ(book.check(token.id, node(4), issuer.clock.wall()), TokenVerdict::used_up);
}

TEST(TokenBook, lets_tokens_expire) {
  Issuer issuer;
  TokenBook book = issuer.open();
  JoinToken token = issuer.create(book);
  issuer.clock.advance(15min - 1ms);
  EXPECT_EQ(book.check(token.id, node(1), issuer.clock.wall()), TokenVerdict::good);
  issuer.clock.advance(1ms);
  EXPECT_EQ(book.check(token.id, node(1), issuer.clock.wall()), TokenVerdict::expired);
  EXPECT_FALSE(book.use(token.id, node(1), issuer.clock.wall()));
  EXPECT_EQ(book.check(random_array<16>(), node(1), issuer.clock.wall()), TokenVerdict::unknown);
}

TEST(TokenBook, forgets_old_tokens_when_it_makes_new_ones) {
  Issuer issuer;
  TokenBook book = issuer.open();
  issuer.create(book);
  issuer.clock.advance(25h);
  JoinToken second = issuer.create(book);
  EXPECT_EQ(book.size(), 1u);
  EXPECT_TRUE(book.proof_key(second.id));
}

TEST(TokenBook, counts_no_use_that_it_could_not_store) {
  Issuer issuer;
  TokenBook book = issuer.open();
  JoinToken token = issuer.create(book);
  issuer.files.disk_full_after(0);
  auto used = book.use(token.id, node(1), issuer.clock.wall());
  ASSERT_FALSE(used);
  EXPECT_EQ(used.error().code, ErrorCode::disk_full);
  EXPECT_GT(issuer.files.fired(), 0u);
  issuer.files.heal();
  EXPECT_TRUE(book.use(token.id, node(2), issuer.clock.wall()));
}

TEST(TokenBook, never_lets_two_nodes_use_one_token_whenever_the_process_dies) {
  for (std::uint64_t moment = 0; moment < 8; ++moment) {
    Issuer issuer;
    TokenBook book = issuer.open();
    JoinToken token = issuer.create(book);
    issuer.files.die_after(moment);
    bool first = book.use(token.id, node(1), issuer.clock.wall()).has_value();
    issuer.files.heal();
    Rng rng(moment);
    issuer.disk.crash(rng);
    TokenBook restarted = issuer.open();
    bool second = restarted.use(token.id, node(2), issuer.clock.wall()).has_value();
    EXPECT_FALSE(first && second) << moment;
  }
}

TEST(TokenBook, names_a_damaged_file) {
  Issuer issuer;
  TokenBook book = issuer.open();
  issuer.create(book);
  issuer.disk.damage(issuer.path / "join_tokens", 100);
  auto opened = TokenBook::open(issuer.files, issuer.path);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::corrupted);
}

TEST(TokenBook, refuses_options_out_of_bounds) {
  Issuer issuer;
  TokenBook book = issuer.open();
  std::vector<TokenBook::Options> bad{{0s, 1, {"a"}},
                                      {24h * 31, 1, {"a"}},
                                      {15min, 0, {"a"}},
                                      {15min, 1001, {"a"}},
                                      {15min, 1, {}},
                                      {15min, 1, std::vector<std::string>(9, "a")},
                                      {15min, 1, {std::string(129, 'a')}}};
  for (const auto& options : bad) {
    auto token = book.create(options, issuer.cluster, issuer.identity, issuer.clock.wall());
    ASSERT_FALSE(token);
    EXPECT_EQ(token.error().code, ErrorCode::invalid_argument);
  }
  EXPECT_EQ(book.size(), 0u);
}

}  // namespace
}  // namespace gpunode::security
