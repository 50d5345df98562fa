// Tells who asked for a text of its pieces, one on its way at a time; what is generated meanwhile goes
// with the next, so that a slow link gets fewer and longer ones. The last need not arrive, as the
// answer has the whole text. One thread adds; answers come on any.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "actors/inference/generate_codec.hpp"

namespace gpunode::inference {

class PieceTeller {
 public:
  // Sends one, and says once whether it arrived: not_found means that nobody wants more.
  using Send = std::function<void(GeneratePiece piece, std::function<void(Result<void>)> arrived)>;
  PieceTeller(std::uint64_t stream, Send send) : stream_(stream), send_(std::move(send)) {}

  // Whether more is wanted. What is told of tokens goes with the next text, or not at all.
  bool add(const TextPiece& piece);

 private:
  struct State {
    std::atomic<bool> on_its_way{false}, unwanted{false};
  };
  const std::uint64_t stream_;
  const Send send_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::uint64_t told_ = 0, told_reports_ = 0;  // bytes, tokens
  std::string waiting_;
  std::vector<TokenReport> waiting_reports_;
};

}  // namespace gpunode::inference
