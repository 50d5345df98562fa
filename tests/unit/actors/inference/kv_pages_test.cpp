#include "actors/inference/kv_pages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "runtime/base/rng.hpp"

namespace gpunode::inference {
namespace {

using Tokens = std::vector<model::Token>;
using Pages = std::vector<KvPages::Page>;

TEST(KvPages, gives_each_page_to_one_until_it_comes_back) {
  KvPages pages(3, 4);
  std::set<KvPages::Page> taken;
  for (int count = 0; count < 3; ++count) taken.insert(*pages.take());
  EXPECT_EQ(taken, (std::set<KvPages::Page>{0, 1, 2}));
  EXPECT_FALSE(pages.take());
  pages.give_back(Pages{1});
  EXPECT_EQ(pages.free(), 1u);
  EXPECT_EQ(pages.take(), 1);
}

TEST(KvPages, find_the_longest_beginning_that_is_remembered) {
  KvPages pages(6, 2);
  const Pages own{*pages.take(), *pages.take()};
  const Tokens first{1, 2}, second{3, 4};
  const auto one = pages.remember(0, first, own[0]);
  const auto two = pages.remember(one, second, own[1]);
  EXPECT_NE(one, two);
  const auto known = pages.find(Tokens{1, 2, 3, 4, 5});
  EXPECT_EQ(known.pages, own);
  EXPECT_EQ(known.beginning, two);
  EXPECT_EQ(pages.find(Tokens{1, 2, 9, 9, 9}).pages, Pages{own[0]});
  EXPECT_EQ(pages.find(Tokens{3, 4, 1}).pages, Pages{}) << "it is a beginning, not a part";
  EXPECT_EQ(pages.find(Tokens{1, 2, 3, 4}).pages, Pages{own[0]})
      << "of the last token the scores are wanted, so it is read";
}

TEST(KvPages, are_held_by_all_that_share_them) {
  KvPages pages(2, 2);
  const Pages own{*pages.take()};
  pages.remember(0, Tokens{1, 2}, own[0]);
  const auto known = pages.find(Tokens{1, 2, 3});
  pages.give_back(own);
  EXPECT_EQ(pages.free(), 1u);
  EXPECT_TRUE(pages.take());
  EXPECT_FALSE(pages.take()) << "somebody still reads the first one";
  pages.give_back(known.pages);
  EXPECT_TRUE(pages.take());
}

TEST(KvPages, forget_what_was_held_longest_ago_and_the_end_of_a_text_first) {
  KvPages pages(4, 1);
  Pages first{*pages.take(), *pages.take()}, second{*pages.take(), *pages.take()};
  pages.remember(pages.remember(0, Tokens{1}, first[0]), Tokens{2}, first[1]);
  pages.remember(pages.remember(0, Tokens{5}, second[0]), Tokens{6}, second[1]);
  pages.give_back(second);
  pages.give_back(first);
  EXPECT_EQ(pages.take(), second[1]);
  EXPECT_EQ(pages.find(Tokens{5, 6, 7}).pages, Pages{second[0]});
  EXPECT_EQ(pages.find(Tokens{1, 2, 3}).pages, first) << "what is used again stays";
}

TEST(KvPages, remember_one_page_of_what_two_have) {
  KvPages pages(2, 2);
  const Pages own{*pages.take(), *pages.take()};
  const Tokens tokens{1, 2};
  const auto one = pages.remember(0, tokens, own[0]);
  EXPECT_EQ(pages.remember(0, tokens, own[1]), one);
  EXPECT_EQ(pages.find(Tokens{1, 2, 3}).pages, Pages{own[0]});
}

// Against what was written to each page, as a cache has it.
TEST(KvPages, never_find_a_page_that_holds_something_else) {
  constexpr std::size_t kPage = 2;
  KvPages pages(9, kPage);
  std::vector<Tokens> written(9);  // the whole text up to the page's end
  std::vector<Pages> held;
  std::size_t found = 0;
  for (std::uint64_t step = 0; step < 20000; ++step) {
    if (mix(step, 1) % 3 == 0 && !held.empty()) {
      const std::size_t which = mix(step, 2) % held.size();
      pages.give_back(held[which]);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
      continue;
    }
    Tokens text(3 + mix(step, 3) % 6);
    for (std::size_t at = 0; at < text.size(); ++at)
      text[at] = static_cast<model::Token>(mix(step, 10 + at) % 2);
    auto known = pages.find(text);
    Pages own = known.pages;
    found += own.size();
    for (std::size_t at = 0; at < own.size(); ++at)
      ASSERT_EQ(written[static_cast<std::size_t>(own[at])],
                Tokens(text.begin(), text.begin() + static_cast<std::ptrdiff_t>((at + 1) * kPage)));
    auto beginning = known.beginning;
    for (std::size_t end = (own.size() + 1) * kPage; end <= text.size(); end += kPage) {
      const auto page = pages.take();
      if (!page) break;
      ASSERT_EQ(std::ranges::count(own, *page), 0);
      for (const Pages& other : held) ASSERT_EQ(std::ranges::count(other, *page), 0);
      own.push_back(*page);
      written[static_cast<std::size_t>(*page)].assign(
          text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end));
      beginning = pages.remember(beginning, std::span(text).subspan(end - kPage, kPage), *page);
    }
    held.push_back(own);
  }
  EXPECT_GT(found, 1000u);
}

}  // namespace
}  // namespace gpunode::inference
