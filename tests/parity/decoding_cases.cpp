// Operations of decoding: what several texts read through one cache.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tests/parity/references.hpp"

namespace gpunode::parity {
namespace {

// Two texts through a cache whose pages of four positions lie backwards: a first part of both in one
// call, then the rest one position at a time. The rows are in the order of the calls.
void add_attention_paged(std::vector<Case>& table, const AttentionShape& s) {
  constexpr std::int64_t kPage = 4, kTexts = 2;
  const std::int64_t row = s.kv_heads() * s.depth, pages = (s.length + kPage - 1) / kPage;
  const std::int64_t cached = kTexts * pages * kPage, rows = kTexts * s.length;
  std::vector<std::int64_t> counts;  // of rows, by call
  std::vector<std::int32_t> positions, texts;
  for (std::int64_t at = 0, count = s.length / 2 + 1; at < s.length; at += count, count = 1) {
    counts.push_back(kTexts * count);
    for (std::int64_t i = 0; i < kTexts * count; ++i) {
      texts.push_back(static_cast<std::int32_t>(i / count));
      positions.push_back(static_cast<std::int32_t>(at + i % count));
    }
  }
  Case one;
  one.name = "attention_paged " + s.text();
  one.operation = "attention_paged";
  one.inputs = {numbers(1, rows * s.joined(), 2)};
  one.output_sizes = {static_cast<std::size_t>(rows * s.channels()),
                      static_cast<std::size_t>(cached * row),
                      static_cast<std::size_t>(cached * row)};
  one.tokens = positions;
  one.tokens.insert(one.tokens.end(), texts.begin(), texts.end());
  for (std::int64_t page = kTexts * pages; page-- > 0;)
    one.tokens.push_back(static_cast<std::int32_t>(page));
  one.run = [=](Run& run) -> Result<void> {
    std::int64_t first = 0;
    for (const std::int64_t count : counts) {
      auto done = run.ops.attention_paged(
          run.stream, run.workspace,
          {.qkv = {run.in[0] + first * s.joined(), {count, s.joined()}},
           .heads = s.heads,
           .kv_heads = s.kv_heads(),
           .positions = {run.tokens + first, {count}},
           .texts = {run.tokens + rows + first, {count}},
           .pages = {run.tokens + 2 * rows, {kTexts, pages}},
           .page = kPage,
           .keys = {run.out[1], {cached, row}},
           .values = {run.out[2], {cached, row}},
           .out = {run.out[0] + first * s.channels(), {count, s.channels()}}});
      if (!done) return done;
      first += count;
    }
    return {};
  };
  const Vector64 cache(one.output_sizes[1], std::nan(""));
  one.reference = [=](const std::vector<Vector64>& in) {
    Vector64 out(static_cast<std::size_t>(rows * s.channels()));
    for (std::int32_t text = 0; text < kTexts; ++text) {
      Vector64 joined;
      std::vector<std::size_t> places;  // a text's rows come in the order of its positions
      for (std::size_t r = 0; r < texts.size(); ++r) {
        if (texts[r] != text) continue;
        const auto from = in[0].begin() + static_cast<std::ptrdiff_t>(r) * s.joined();
        joined.insert(joined.end(), from, from + s.joined());
        places.push_back(r);
      }
      const Vector64 alone = reference_attention(s, joined)[0];
      for (std::size_t i = 0; i < places.size(); ++i)
        std::copy_n(alone.begin() + static_cast<std::ptrdiff_t>(i) * s.channels(), s.channels(),
                    out.begin() + static_cast<std::ptrdiff_t>(places[i]) * s.channels());
    }
    return std::vector<Vector64>{out, cache, cache};
  };
  table.push_back(std::move(one));
}

// Weights (N, K) as a format has them, in the words of a vector of floats.
struct Packed {
  ops::WeightFormat format;
  std::int64_t rows, inner;
  Vector words, meant;  // what they stand for

  Packed(ops::WeightFormat format_, std::int64_t rows_, std::int64_t inner_)
      : format(format_), rows(rows_), inner(inner_), meant(numbers(2, rows_ * inner_)) {
    const std::size_t row = ops::weight_row_bytes(format, inner);
    words.resize((bytes() + 3) / 4);
    const MutableByteView to(reinterpret_cast<std::byte*>(words.data()), bytes());
    EXPECT_TRUE(ops::pack_weights(format, meant, inner, to));
    for (std::size_t at = 0; at < static_cast<std::size_t>(rows); ++at)
      ops::unpack_weights(format, to.subspan(at * row, row),
                          std::span(meant).subspan(at * static_cast<std::size_t>(inner),
                                                   static_cast<std::size_t>(inner)));
  }
  std::size_t bytes() const {
    return static_cast<std::size_t>(rows) * ops::weight_row_bytes(format, inner);
  }
  ByteView in(const float* place) const {
    return {reinterpret_cast<const std::byte*>(place), bytes()};
  }
  std::string text() const {
    return shape_text({rows, inner}) + " in " + std::string(ops::to_string(format));
  }
};

void add_packed_product(std::vector<Case>& table, std::int64_t rows, const Packed& w) {
  Case one;
  one.name = "matmul " + shape_text({rows, w.inner}) + " independent rows, " + w.text();
  one.operation = "matmul";
  one.inputs = {numbers(1, rows * w.inner), w.words, numbers(3, w.rows)};
  one.output_sizes = {static_cast<std::size_t>(rows * w.rows)};
  one.tolerance = 2e-7 * static_cast<double>(w.inner) + 1e-6;
  one.run = [=](Run& run) {
    return run.ops.matmul(run.stream, run.workspace,
                          {.a = {run.in[0], {rows, w.inner}},
                           .b = {nullptr, {w.rows, w.inner}},
                           .c = {run.out[0], {rows, w.rows}},
                           .transpose_b = true,
                           .bias = {run.in[2], {w.rows}},
                           .packed_b = w.in(run.in[1]),
                           .weights = w.format,
                           .independent_rows = true});
  };
  one.reference = [=](const std::vector<Vector64>& in) {
    Vector64 c;
    for (std::int64_t m = 0; m < rows; ++m)
      for (std::int64_t n = 0; n < w.rows; ++n) {
        double sum = in[2][static_cast<std::size_t>(n)];
        for (std::int64_t k = 0; k < w.inner; ++k)
          sum += in[0][static_cast<std::size_t>(m * w.inner + k)] *
                 double{w.meant[static_cast<std::size_t>(n * w.inner + k)]};
        c.push_back(sum);
      }
    return std::vector<Vector64>{c};
  };
  table.push_back(std::move(one));
}

// Of a token and a position.
void add_packed_embedding(std::vector<Case>& table, std::int64_t length, const Packed& w) {
  Case one;
  one.name = "embedding of " + std::to_string(length) + ", " + w.text();
  one.operation = "embedding";
  one.inputs = {w.words, numbers(4, length * w.inner)};
  one.output_sizes = {static_cast<std::size_t>(length * w.inner)};
  one.tokens = token_numbers(5, length, w.rows);
  one.run = [=](Run& run) {
    return run.ops.embedding(run.stream, run.workspace,
                             {.tokens = {run.tokens, {1, length}},
                              .token_table = {nullptr, {w.rows, w.inner}},
                              .position_table = {run.in[1], {length, w.inner}},
                              .x = {run.out[0], {1, length, w.inner}},
                              .packed_table = w.in(run.in[0]),
                              .weights = w.format});
  };
  one.reference = [w, tokens = one.tokens](const std::vector<Vector64>& in) {
    Vector64 x = in[1];
    for (std::size_t at = 0; at < x.size(); ++at) {
      const auto inner = static_cast<std::size_t>(w.inner);
      x[at] += double{w.meant[static_cast<std::size_t>(tokens[at / inner]) * inner + at % inner]};
    }
    return std::vector<Vector64>{x};
  };
  table.push_back(std::move(one));
}

}  // namespace

void add_decoding_cases(std::vector<Case>& table) {
  for (const AttentionShape& shape : std::initializer_list<AttentionShape>{{1, 64, 1, 32},
                                                                           {1, 19, 3, 8},
                                                                           {1, 1, 1, 64},
                                                                           {1, 16, 4, 20, 2},
                                                                           {1, 63, 4, 32, 4},
                                                                           {1, 130, 2, 64, 2},
                                                                           {1, 40, 2, 100, 1}})
    add_attention_paged(table, shape);
  for (const ops::WeightFormat format : ops::kWeightFormats) {
    if (format == ops::WeightFormat::fp32) continue;
    for (const std::int64_t rows : {1, 3, 67}) {
      add_packed_product(table, rows, {format, 61, 96});
      add_packed_product(table, rows, {format, 50, 1120});
    }
    add_packed_embedding(table, 9, {format, 30, 544});
  }
  add_packed_product(table, 5, {ops::WeightFormat::bf16, 13, 531});
  add_packed_product(table, 1, {ops::WeightFormat::bf16, 13, 531});
}

}  // namespace gpunode::parity
