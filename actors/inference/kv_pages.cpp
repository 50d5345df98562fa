#include "actors/inference/kv_pages.hpp"

#include <ranges>

#include "runtime/base/check.hpp"

namespace gpunode::inference {

KvPages::KvPages(std::size_t pages, std::size_t page) : page_(page), states_(pages) {
  for (std::size_t at = 0; at < pages; ++at) unheld_.insert({0, static_cast<Page>(at)});
}

void KvPages::hold(Page page) {
  State& state = states_[static_cast<std::size_t>(page)];
  if (state.holders++ == 0) unheld_.erase({state.since, page});
}

void KvPages::forget(State& state) {
  if (!state.key) return;
  known_.erase(*state.key);
  state.key = nullptr;
}

KvPages::Known KvPages::find(std::span<const model::Token> tokens) {
  Known found;
  Key key;
  while (tokens.size() > page_) {
    const auto part = tokens.first(page_);
    key.first = found.beginning;
    key.second.assign(part.begin(), part.end());
    const auto node = known_.find(key);
    if (node == known_.end()) break;
    hold(node->second.page);
    found.pages.push_back(node->second.page);
    found.beginning = node->second.beginning;
    tokens = tokens.subspan(page_);
  }
  return found;
}

std::optional<KvPages::Page> KvPages::take() {
  if (unheld_.empty()) return std::nullopt;
  const Page page = unheld_.begin()->second;
  forget(states_[static_cast<std::size_t>(page)]);
  hold(page);
  return page;
}

KvPages::Beginning KvPages::remember(Beginning before, std::span<const model::Token> tokens,
                                     Page page) {
  GPUNODE_CHECK(tokens.size() == page_, "a page that is remembered is full");
  State& state = states_[static_cast<std::size_t>(page)];
  const auto [at, fresh] = known_.try_emplace({before, std::vector(tokens.begin(), tokens.end())},
                                              Node{page, last_ + 1});
  if (!fresh) return at->second.beginning;
  forget(state);
  state.key = &at->first;
  return ++last_;
}

// The end of a text goes before its beginning, which more texts may have.
void KvPages::give_back(std::span<const Page> pages) {
  for (const Page page : std::views::reverse(pages)) {
    State& state = states_[static_cast<std::size_t>(page)];
    GPUNODE_CHECK(state.holders > 0, "a page is given back that nobody holds");
    if (--state.holders > 0) continue;
    state.since = state.key ? ++clock_ : 0;
    unheld_.insert({state.since, page});
  }
}

}  // namespace gpunode::inference
