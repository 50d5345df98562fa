// Which pages of a decoder's cache belong to whom. A page is held by the texts that have it, and by
// none; one that is full of a text's beginning is remembered, so that a later text that begins alike
// need not read that again, until its room is needed: then the one that was held longest ago goes.
// What is remembered is compared token by token, never by a digest alone. Pure; one thread.
// Source: Kwon et al., "Efficient Memory Management for Large Language Model Serving with
// PagedAttention", 2023; Zheng et al., "SGLang", 2024 (a tree of beginnings).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "kernels/model/model.hpp"

namespace gpunode::inference {

class KvPages {
 public:
  using Page = std::int32_t;
  // A beginning made of whole pages, as a place in the tree of them; 0: of nothing.
  using Beginning = std::uint64_t;

  // `page`: positions of one.
  KvPages(std::size_t pages, std::size_t page);

  std::size_t page() const { return page_; }
  // That nobody holds, remembered ones among them.
  std::size_t free() const { return unheld_.size(); }

  struct Known {
    std::vector<Page> pages;  // held by the caller from now on
    Beginning beginning = 0;
  };
  // The longest beginning of these tokens that is remembered, one token at least left out.
  Known find(std::span<const model::Token> tokens);
  // One that the caller holds; nothing: all are held.
  std::optional<Page> take();
  // This page of the caller's is full of the tokens that come after `before`. Where another page has
  // the same, that stays the one to be found. Returns the beginning that they make.
  Beginning remember(Beginning before, std::span<const model::Token> tokens, Page page);
  // Each of them, in the order of the text.
  void give_back(std::span<const Page> pages);

 private:
  using Key = std::pair<Beginning, std::vector<model::Token>>;
  struct Node {
    Page page = 0;
    Beginning beginning = 0;
  };
  struct State {
    std::size_t holders = 0;
    std::uint64_t since = 0;   // unheld, in the order of giving back
    const Key* key = nullptr;  // that it is remembered by
  };
  void hold(Page page);
  void forget(State& state);

  std::size_t page_;
  std::vector<State> states_;
  std::map<Key, Node> known_;
  std::set<std::pair<std::uint64_t, Page>> unheld_;  // those that nothing is remembered of first
  std::uint64_t clock_ = 0;
  Beginning last_ = 0;
};

}  // namespace gpunode::inference
