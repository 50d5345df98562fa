// Operations on a table of blocks: rows of several lengths and kinds, with gaps between them that
// nothing touches, in a part of a vector that does not begin with it.
#include <cmath>
#include <cstring>

#include "tests/parity/op_table.hpp"

namespace gpunode::parity {
namespace {

using Rows = std::vector<ops::BlockRow>;

constexpr std::int64_t kOrigin = 1000, kGap = 3;
// A quarter of this scale, and of these numbers, is exact.
constexpr double kScale = 0.25;

Rows rows() {
  Rows all = {{.count = 1, .decay = 0.125f},
              {.count = 31},
              {.count = 700, .share = 0.25f, .is_buffer = 1},
              {.count = 33000, .decay = 0.125f},
              {.count = 5, .share = 1, .is_buffer = 1}};
  std::int64_t next = kOrigin;
  for (ops::BlockRow& row : all) {
    row.begin = next;
    next += row.count + kGap;
  }
  return all;
}

std::int64_t element_count(const Rows& all) {
  return all.back().begin + all.back().count + kGap - kOrigin;
}

// A case whose table of numbers is the rows'.
Case case_of(const char* operation) {
  const Rows all = rows();
  Case one;
  one.name = std::string(operation) + " of " + std::to_string(all.size()) + " rows";
  one.operation = operation;
  one.inputs = {numbers(1, element_count(all), 5)};
  one.tokens.resize(all.size() * sizeof(ops::BlockRow) / sizeof(std::int32_t));
  std::memcpy(one.tokens.data(), all.data(), all.size() * sizeof(ops::BlockRow));
  return one;
}

ops::BlockTable table_of(const Run& run) {
  return {.rows = reinterpret_cast<const ops::BlockRow*>(run.tokens),
          .count = static_cast<std::int64_t>(rows().size()),
          .origin = kOrigin};
}

// The row that an element is of; null: it lies in a gap.
const ops::BlockRow* row_of(const Rows& all, std::size_t element) {
  const std::int64_t place = kOrigin + static_cast<std::int64_t>(element);
  for (const ops::BlockRow& row : all)
    if (row.begin <= place && place < row.begin + row.count) return &row;
  return nullptr;
}

Case adamw_case() {
  Case one = case_of("adamw");
  const std::int64_t count = element_count(rows());
  one.output_sizes.assign(3, static_cast<std::size_t>(count));  // from 0.5
  one.run = [count](Run& run) {
    return run.ops.adamw(run.stream, run.workspace,
                         {.gradient = {run.in[0], {count}},
                          .weights = {run.out[0], {count}},
                          .first = {run.out[1], {count}},
                          .second = {run.out[2], {count}},
                          .scale = static_cast<float>(kScale),
                          .rate = 0.125f,
                          .beta1 = 0.875f,
                          .beta2 = 0.984375f,
                          .epsilon = 0.0009765625f,
                          .decay = 99,
                          .upscale1 = 2.0f,
                          .upscale2 = 4.0f,
                          .blocks = table_of(run)});
  };
  one.reference = [all = rows()](const std::vector<Vector64>& in) {
    std::vector<Vector64> state(3, Vector64(in[0].size(), 0.5));
    for (std::size_t at = 0; at < in[0].size(); ++at) {
      const ops::BlockRow* row = row_of(all, at);
      if (!row || row->is_buffer) continue;
      const double g = in[0][at] * kScale, first = 0.875 * 0.5 + 0.125 * g;
      const double second = 0.984375 * 0.5 + 0.015625 * g * g;
      const double step = first / 0.5 / (std::sqrt(second / 0.25) + 0.0009765625);
      state[0][at] = 0.5 - 0.125 * (step + double{row->decay} * 0.5);
      state[1][at] = first;
      state[2][at] = second;
    }
    return state;
  };
  return one;
}

Case square_sum_case() {
  Case one = case_of("square_sum");
  one.sums = rows().size();
  one.tolerance = 1e-7;  // of the first of the floats that the table carries
  const std::int64_t count = element_count(rows());
  one.run = [count](Run& run) {
    return run.ops.square_sum(
        run.stream, run.workspace,
        {.x = {run.in[0], {count}}, .sum = run.sums, .blocks = table_of(run)});
  };
  one.reference = [all = rows()](const std::vector<Vector64>& in) {
    Vector64 sums;
    for (const ops::BlockRow& row : all) {
      double sum = 0;
      for (std::int64_t i = 0; i < row.count; ++i) {
        const double x = in[0][static_cast<std::size_t>(row.begin - kOrigin + i)];
        sum += x * x;
      }
      sums.insert(sums.end(), {sum, std::nan(""), std::nan("")});
    }
    return std::vector<Vector64>{sums};
  };
  return one;
}

Case follow_case() {
  Case one = case_of("follow");
  const std::int64_t count = element_count(rows());
  one.output_sizes = {static_cast<std::size_t>(count)};
  one.run = [count](Run& run) {
    return run.ops.follow(run.stream, run.workspace,
                          {.sum = {run.in[0], {count}},
                           .values = {run.out[0], {count}},
                           .scale = static_cast<float>(kScale),
                           .share = 99,
                           .blocks = table_of(run)});
  };
  one.reference = [all = rows()](const std::vector<Vector64>& in) {
    Vector64 values(in[0].size(), 0.5);
    for (std::size_t at = 0; at < values.size(); ++at)
      if (const ops::BlockRow* row = row_of(all, at); row && row->is_buffer)
        values[at] += double{row->share} * (in[0][at] * kScale - 0.5);
    return std::vector<Vector64>{values};
  };
  return one;
}

}  // namespace

void add_block_cases(std::vector<Case>& table) {
  table.push_back(adamw_case());
  table.push_back(square_sum_case());
  table.push_back(follow_case());
}

}  // namespace gpunode::parity
