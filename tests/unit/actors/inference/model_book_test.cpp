// Which version of a model is which: numbers by content, the newest first, and nothing believed of nodes
// that are away or may not serve.
#include "actors/inference/detail/model_book.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/security/rights.hpp"
#include "runtime/storage/checksum.hpp"

namespace gpunode::inference {
namespace {

using ::testing::ElementsAre;

class Book : public ::testing::Test {
 protected:
  static NodeId id(int number) {
    NodeId id;
    id.value[0] = static_cast<std::byte>(number);
    return id;
  }
  static std::string digest_of(const std::string& content) {
    return storage::sha256_of(as_bytes(content)).text();
  }
  void serves(int number, std::uint64_t version, const std::string& content,
              PeerHealth health = PeerHealth::alive, std::uint32_t rights = security::kRightServe,
              const std::string& part = "") {
    NodeInfo node;
    node.id = id(number);
    node.health = health;
    node.rights = rights;
    cluster_.nodes.push_back(node);
    nlohmann::json told{{"version", version},
                        {"digest", content.size() > 1 ? content : digest_of(content)}};
    if (!part.empty()) told["part"] = part;
    cluster_.entries.push_back({node.id, call_name("m"), to_bytes(as_bytes(told.dump()))});
  }
  std::vector<std::uint64_t> numbers() const {
    std::vector<std::uint64_t> all;
    for (const OfferedVersion& one : offered_versions(cluster_, "m"))
      all.push_back(one.version.number);
    return all;
  }
  std::uint64_t number(const std::string& content, const std::vector<ModelVersion>& known = {},
                       bool anew = false) const {
    return number_for(offered_versions(cluster_, "m"), digest_of(content), known, anew);
  }

  ClusterSnapshot cluster_;
};

// Of a head nobody can take a copy; its number is taken all the same.
TEST_F(Book, ACopyIsOfWhatSomebodyHasWhole) {
  serves(1, 1, "a");
  serves(2, 2, "b", PeerHealth::alive, security::kRightServe, "1/3");
  const auto offers = offered_versions(cluster_, "m");
  ASSERT_NE(wanted_of(offers, 0), nullptr);
  EXPECT_EQ(wanted_of(offers, 0)->version.number, 1u);
  EXPECT_EQ(wanted_of(offers, 2), nullptr);
  EXPECT_EQ(number("c"), 3u);
}

TEST_F(Book, TheFirstIsOneAndAnotherContentTheNext) {
  EXPECT_EQ(number("a"), 1u);
  serves(1, 1, "a");
  EXPECT_EQ(number("a"), 1u);
  EXPECT_EQ(number("b"), 2u);
  serves(2, 4, "d");
  EXPECT_EQ(number("a"), 1u);
  EXPECT_EQ(number("b"), 5u);
  EXPECT_EQ(number("a", {}, true), 5u);
  // What this node served before counts too.
  EXPECT_EQ(number("b", {{7, digest_of("b")}}), 7u);
  EXPECT_EQ(number("c", {{7, digest_of("b")}}), 8u);
}

TEST_F(Book, WhoIsAwayMayNotServeOrTellsNonsenseIsNotBelieved) {
  serves(1, 1, "a");
  serves(2, 9, "x", PeerHealth::dead);
  serves(3, 9, "x", PeerHealth::alive, security::kRightCall);
  serves(4, ~std::uint64_t{0}, "x");
  serves(5, 0, "x");
  serves(6, 9, "../../x");
  EXPECT_THAT(numbers(), ElementsAre(1));
  EXPECT_EQ(number("b"), 2u);
}

TEST_F(Book, RemembersTheNumbersOfWhoIsGone) {
  serves(1, 1, "a");
  serves(2, 3, "c", PeerHealth::dead);
  serves(3, 9, "x", PeerHealth::alive, 0);
  serves(4, std::uint64_t{1} << 48, "y");
  const auto newest = newest_versions(cluster_);
  ASSERT_EQ(newest.size(), 1u);
  EXPECT_EQ(newest.at("m"), (ModelVersion{3, digest_of("c")}));
  EXPECT_EQ(number("b", {newest.at("m")}), 4u) << "nor behind a number that leaves no room";
  EXPECT_EQ(number("c", {newest.at("m")}), 3u);
}

TEST_F(Book, ACopyIsOfTheNewestOrOfTheOneThatItIsPinnedTo) {
  EXPECT_EQ(wanted_of(offered_versions(cluster_, "m"), 0), nullptr);
  serves(1, 1, "a");
  serves(2, 2, "b");
  serves(3, 2, "c");  // two were made at once: the larger digest
  serves(4, 2, "c");
  serves(5, 2, "b");
  const auto offers = offered_versions(cluster_, "m");
  const bool is_c = digest_of("c") > digest_of("b");
  EXPECT_EQ(wanted_of(offers, 0)->version, (ModelVersion{2, digest_of(is_c ? "c" : "b")}));
  EXPECT_THAT(wanted_of(offers, 0)->holders,
              is_c ? ElementsAre(id(3), id(4)) : ElementsAre(id(2), id(5)));
  EXPECT_EQ(wanted_of(offers, 1)->version.digest, digest_of("a"));
  EXPECT_EQ(wanted_of(offers, 3), nullptr);
}

TEST_F(Book, WhatIsKeptComesBack) {
  const ModelSource source{.path = "/m", .job = {}, .weights = "int8", .copy = true, .pinned = 3};
  const auto kept = to_json(source, {3, "d"});
  EXPECT_EQ(version_in(kept), (ModelVersion{3, "d"}));
  EXPECT_TRUE(source_in(kept).copy);
  EXPECT_EQ(source_in(kept).pinned, 3u);
  EXPECT_EQ(source_in(kept).weights, "int8");
  EXPECT_EQ(source_in(to_json({.path = "/m"}, {1, "d"})).path, "/m");
}

TEST_F(Book, ANameIsOneThatGoesWell) {
  for (const char* good : {"m", "gpt-2_x.1", "ä"}) EXPECT_TRUE(check_model_name(good)) << good;
  for (const char* bad : {"", "a b", "a/b", "a@1", "a\n"})
    EXPECT_FALSE(check_model_name(bad)) << bad;
}

}  // namespace
}  // namespace gpunode::inference
