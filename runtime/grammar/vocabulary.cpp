#include "runtime/grammar/vocabulary.hpp"

#include <algorithm>
#include <numeric>

namespace gpunode::grammar {

Vocabulary::Vocabulary(std::span<const std::string> texts) : size_(texts.size()) {
  std::vector<std::uint32_t> order(texts.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {},
                           [&](std::uint32_t token) -> const std::string& { return texts[token]; });
  nodes_.push_back({});
  std::vector<std::size_t> way{0};  // nodes from the root to the newest
  const auto go_back_to = [&](std::size_t depth) {
    for (; way.size() > depth + 1; way.pop_back())
      nodes_[way.back()].behind = static_cast<std::uint32_t>(nodes_.size());
  };
  std::string_view before;
  for (const std::uint32_t token : order) {
    const std::string& text = texts[token];
    if (text.empty()) continue;
    longest_ = std::max(longest_, text.size());
    const auto differs = std::ranges::mismatch(before, text);
    go_back_to(static_cast<std::size_t>(differs.in1 - before.begin()));
    for (std::size_t depth = way.size() - 1; depth < text.size(); ++depth) {
      way.push_back(nodes_.size());
      nodes_.push_back({.depth = static_cast<std::uint32_t>(depth + 1),
                        .first_token = static_cast<std::uint32_t>(tokens_.size()),
                        .byte = static_cast<std::uint8_t>(text[depth])});
    }
    Node& node = nodes_[way.back()];
    if (node.tokens == 0) node.first_token = static_cast<std::uint32_t>(tokens_.size());
    ++node.tokens;
    tokens_.push_back(token);
    before = text;
  }
  go_back_to(0);
  nodes_[0].behind = static_cast<std::uint32_t>(nodes_.size());
  // What follows a node is known when it comes to it from the end.
  for (std::size_t at = nodes_.size(); at-- > 0;) {
    Node& node = nodes_[at];
    if (node.tokens > 0) node.longest = std::max(node.longest, node.depth);
    for (std::size_t next = at + 1; next < node.behind; next = nodes_[next].behind)
      node.longest = std::max(node.longest, nodes_[next].longest);
  }
  by_length_ = tokens_;
  std::ranges::stable_sort(by_length_, std::ranges::greater{},
                           [&](std::uint32_t token) { return texts[token].size(); });
  lengths_.reserve(by_length_.size());
  for (const std::uint32_t token : by_length_)
    lengths_.push_back(static_cast<std::uint32_t>(texts[token].size()));
}

std::span<const std::uint32_t> Vocabulary::longer_than(std::size_t bytes) const {
  const auto end =
      std::ranges::partition_point(lengths_, [&](std::uint32_t length) { return length > bytes; });
  return std::span(by_length_).first(static_cast<std::size_t>(end - lengths_.begin()));
}

}  // namespace gpunode::grammar
