// What the all-reduce benchmark measured and what it is held against: medians of samples taken in
// turns, ratios of samples of the same round, and the bars that --require turns into a status.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/all_reduce_contenders.hpp"

namespace gpunode::bench {

struct Series {
  Family family = Family::exact_plain;
  std::string label;
  std::vector<double> seconds;    // an operation, by round
  std::vector<double> processor;  // of all ranks together
};

// One number of ranks and one length.
struct Cell {
  std::uint32_t ranks = 0;
  std::uint64_t bytes = 0;
  std::uint64_t bits_a_second = 0;  // of each machine's interface; 0: loopback
  std::uint32_t machines = 0;       // with limited interfaces: over which the ranks are spread
  std::vector<Series> series;
};

struct Ratio {
  std::string what;  // "exact plain / gloo ring_chunked"
  double median = 0, low = 0, high = 0;
  std::optional<double> bar;  // at most
  bool met() const { return !bar || median <= *bar; }
};

// Null where it did not take part.
const Series* find(const Cell& cell, Family family);

std::string size_text(std::uint64_t bytes);  // "4 KiB"

// The least time that the plan allows on links of that speed: what the machine that sends most
// sends to others, partial sums and results, without any header. grouped: each machine sends one
// sum of all its ranks, and has one copy of each result.
double plan_seconds(const Cell& cell, bool grouped = false);

// The ratios of a cell that there are series for, with their bars.
std::vector<Ratio> ratios_of(const Cell& cell);

void print_cell(const Cell& cell, const std::vector<Ratio>& ratios);
// All cells as JSON.
std::string json_of(const std::vector<Cell>& cells);

}  // namespace gpunode::bench
