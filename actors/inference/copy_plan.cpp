#include "actors/inference/copy_plan.hpp"

#include <algorithm>
#include <optional>

namespace gpunode::inference {

CopyPlan::CopyPlan(std::size_t pieces) : here_(pieces) {
  for (std::size_t piece = 0; piece < pieces; ++piece) left_.push_back(piece);
}

// It is not asked for the piece any more; where nobody is, it is asked of others.
bool CopyPlan::give_back(Holder& holder, std::size_t piece) {
  if (holder.asked.erase(piece) == 0) return false;
  if (--under_way_[piece] > 0) return true;
  under_way_.erase(piece);
  if (!here_[piece]) left_.push_front(piece);
  return true;
}

void CopyPlan::give_back_all(Holder& holder) {
  while (!holder.asked.empty()) give_back(holder, *holder.asked.begin());
}

void CopyPlan::set_holders(const std::vector<NodeId>& holders) {
  for (const NodeId& one : holders)
    if (!given_up_.contains(one)) holders_[one].gone = false;
  for (auto& [node, holder] : holders_) {
    if (std::ranges::find(holders, node) != holders.end()) continue;
    holder.gone = true;
    give_back_all(holder);
  }
}

// The next that nobody is asked for; none left, the first that one alone is asked for, another one.
std::optional<std::size_t> CopyPlan::choose(const Holder& holder) {
  if (!left_.empty()) {
    const std::size_t piece = left_.front();
    left_.pop_front();
    return piece;
  }
  if (!holder.asked.empty()) return {};
  for (const auto& [piece, times] : under_way_)
    if (times == 1) return piece;
  return {};
}

std::vector<CopyPlan::Ask> CopyPlan::next() {
  std::vector<Ask> asks;
  // In turns, so that each has one before any has two.
  for (bool more = true; more;) {
    more = false;
    for (auto& [node, holder] : holders_) {
      if (holder.gone || holder.asked.size() >= kAtOnce) continue;
      const auto piece = choose(holder);
      if (!piece) continue;
      holder.asked.insert(*piece);
      ++under_way_[*piece];
      asks.push_back({node, *piece});
      more = true;
    }
  }
  return asks;
}

bool CopyPlan::on_good(const NodeId& holder, std::size_t piece) {
  const bool is_new = !here_[piece];
  here_[piece] = true;
  if (const auto found = holders_.find(holder); found != holders_.end()) {
    found->second.failed = 0;
    give_back(found->second, piece);
  }
  if (!is_new) return false;
  ++here_count_;
  ++given_[holder];
  std::erase(left_, piece);
  return true;
}

void CopyPlan::on_wrong(const NodeId& holder) {
  given_up_.insert(holder);
  const auto found = holders_.find(holder);
  if (found == holders_.end()) return;
  give_back_all(found->second);
  holders_.erase(found);
}

void CopyPlan::on_failed(const NodeId& holder, std::size_t piece) {
  const auto found = holders_.find(holder);
  if (found == holders_.end() || !give_back(found->second, piece)) return;
  if (++found->second.failed >= kMostFailed) on_wrong(holder);
}

bool CopyPlan::is_stuck() const {
  return !is_done() &&
         std::ranges::all_of(holders_, [](const auto& one) { return one.second.gone; });
}

}  // namespace gpunode::inference
