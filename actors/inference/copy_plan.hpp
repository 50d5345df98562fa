// Which piece of a model is asked of which node that has it, until all are here: a few at once of each, the
// next to whoever answers, and at the end what a slow one keeps waiting for of another one too. Who gives
// wrong bytes is asked no more, and neither is who failed several times in a row. Pure; one thread.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "runtime/base/ids.hpp"

namespace gpunode::inference {

class CopyPlan {
 public:
  static constexpr std::size_t kAtOnce = 4;      // of one node
  static constexpr std::size_t kMostFailed = 3;  // in a row, of one node

  struct Ask {
    NodeId holder;
    std::size_t piece = 0;
  };

  explicit CopyPlan(std::size_t pieces);

  // Those that have the model now: new ones are asked from now on, of others no more is expected. Who was
  // given up stays so.
  void set_holders(const std::vector<NodeId>& holders);
  // What is to be asked now.
  std::vector<Ask> next();

  // The piece came. False: it is here already.
  bool on_good(const NodeId& holder, std::size_t piece);
  // What it gave is not of the model.
  void on_wrong(const NodeId& holder);
  // No answer, or a refusal.
  void on_failed(const NodeId& holder, std::size_t piece);

  std::size_t here() const { return here_count_; }
  bool is_done() const { return here_count_ == here_.size(); }
  // Nobody is asked, and nobody is left to ask.
  bool is_stuck() const;
  // Pieces that each gave.
  const std::map<NodeId, std::size_t>& given() const { return given_; }

 private:
  struct Holder {
    std::set<std::size_t> asked;
    std::size_t failed = 0;  // in a row
    bool gone = false;
  };
  bool give_back(Holder& holder, std::size_t piece);
  void give_back_all(Holder& holder);
  std::optional<std::size_t> choose(const Holder& holder);

  std::vector<bool> here_;
  std::size_t here_count_ = 0;
  std::deque<std::size_t> left_;          // nobody is asked for them
  std::map<std::size_t, int> under_way_;  // of how many each is asked
  std::map<NodeId, Holder> holders_;
  std::set<NodeId> given_up_;
  std::map<NodeId, std::size_t> given_;
};

}  // namespace gpunode::inference
