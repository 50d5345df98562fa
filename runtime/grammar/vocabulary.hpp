// The tokens of a model by their bytes: a tree in which those that begin alike share the way there, so that
// what holds for a beginning is found once for all that have it. Immutable, any thread.
// Costs about 16 bytes a byte of the tokens.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gpunode::grammar {

class Vocabulary {
 public:
  // In the order in which a walk meets them: what begins with a node's bytes follows it, up to `behind`.
  struct Node {
    std::uint32_t behind = 0;
    std::uint32_t depth = 0;                    // bytes from the root, which is the first node
    std::uint32_t first_token = 0, tokens = 0;  // that are exactly these bytes
    std::uint32_t longest = 0;                  // token's bytes, of it and what follows it
    std::uint8_t byte = 0;
  };
  // One text a number; an empty one is no token that a text may have.
  explicit Vocabulary(std::span<const std::string> texts);

  std::span<const Node> nodes() const { return nodes_; }
  std::span<const std::uint32_t> tokens_of(const Node& node) const {
    return std::span(tokens_).subspan(node.first_token, node.tokens);
  }
  // Of more bytes than these, the longest first.
  std::span<const std::uint32_t> longer_than(std::size_t bytes) const;
  std::size_t size() const { return size_; }
  std::size_t longest() const { return longest_; }  // bytes

 private:
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> tokens_;
  std::vector<std::uint32_t> by_length_, lengths_;  // the longest first
  std::size_t size_ = 0, longest_ = 0;
};

}  // namespace gpunode::grammar
