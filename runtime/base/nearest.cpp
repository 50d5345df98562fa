#include "runtime/base/nearest.hpp"

#include <algorithm>
#include <vector>

namespace gpunode {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      std::size_t replaced = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::string nearest_of(std::string_view word, std::span<const std::string> known) {
  std::string best;
  std::size_t best_distance = 0;
  if (word.size() > 64) return best;
  for (const std::string& candidate : known) {
    std::size_t distance = edit_distance(word, candidate);
    if (distance > std::max(word.size(), candidate.size()) / 2) continue;
    if (best.empty() || distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string unknown_word(std::string_view what, std::string_view word,
                         std::span<const std::string> known) {
  std::string text = "unknown " + std::string(what) + " '" + std::string(word.substr(0, 64)) + "'";
  if (std::string near = nearest_of(word, known); !near.empty())
    return text + "; did you mean '" + near + "'?";
  text += "; known are ";
  for (const std::string& candidate : known)
    text += (&candidate == known.data() ? "" : ", ") + candidate;
  return text;
}

}  // namespace gpunode
