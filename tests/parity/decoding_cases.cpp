// Operations of decoding: what several texts read through one cache.
#include <algorithm>
#include <cmath>

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
}

}  // namespace gpunode::parity
