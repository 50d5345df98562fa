#include "kernels/ops/attention.hpp"

#include "kernels/cpu/operations.hpp"

namespace gpunode::cpu {

// The query heads of one sample that share a head of keys and values.
struct AttentionHeads {
  const float *query, *key, *value;      // (T, D) each, of the first of the heads
  std::size_t count;                     // query heads; they lie one after the other
  std::size_t row, out_row;              // from one position to the next, in qkv and in out
  std::size_t length, depth, positions;  // of T positions the first `length` are real
  float scale;
  bool causal;
};

struct BackwardHeads {
  const float *dout, *out, *statistics;  // as above; statistics (count, T, 2)
  float *dquery, *dkey, *dvalue;
};

struct ForwardScratch {
  float *key, *value;     // (length, width): depth in whole vectors
  float* turned_query;    // (D, queries of a block)
  float* scores;          // (keys of a block, queries of a block)
  float* out;             // (queries of a block, width)
  float *factors, *tops;  // (queries of a block)
};

struct BackwardScratch {
  float *key, *value, *dkey, *dvalue;  // (length, width)
  float *turned_query, *turned_dout;   // (D, queries of a block)
  float *query, *dout, *dquery;        // (queries of a block, width)
  float *scores, *dscores;             // (keys of a block, queries of a block)
  float *tops, *inverse_sums, *means;  // (queries of a block)
};

}  // namespace gpunode::cpu

#define GPUNODE_ISA_BODY "kernels/cpu/detail/attention_body.inc"
#include "kernels/cpu/detail/for_each_isa.inc"

namespace gpunode::cpu {
namespace {

// What both passes are given.
struct Setting {
  tensor::ConstTensor qkv;
  std::int64_t heads, kv_heads;
  bool causal;
  tensor::TokenTensor lengths;
};

struct Extents {
  std::size_t samples, positions, heads, kv_heads, depth, width, row, out_row;

  explicit Extents(const Setting& setting) {
    const tensor::Shape& qkv = setting.qkv.shape;
    const std::int64_t K = setting.kv_heads == 0 ? setting.heads : setting.kv_heads;
    GPUNODE_CHECK(qkv.rank() == 3 && setting.heads > 0 && K > 0 && setting.heads % K == 0 &&
                      qkv[2] % (setting.heads + 2 * K) == 0,
                  "attention: the heads do not divide the joined projection");
    GPUNODE_CHECK(!setting.lengths || setting.lengths.element_count() == qkv[0],
                  "attention: as many lengths as samples");
    samples = static_cast<std::size_t>(qkv[0]);
    positions = static_cast<std::size_t>(qkv[1]);
    heads = static_cast<std::size_t>(setting.heads);
    kv_heads = static_cast<std::size_t>(K);
    row = static_cast<std::size_t>(qkv[2]);
    depth = row / (heads + 2 * kv_heads);
    width = static_cast<std::size_t>(ops::padded_row(static_cast<std::int64_t>(depth)));
    out_row = heads * depth;
  }

  // Of one sample: how many of its positions are real.
  std::size_t length(const Setting& setting, std::size_t sample) const {
    if (!setting.lengths) return positions;
    const std::int32_t length = setting.lengths.data[sample];
    GPUNODE_CHECK(length >= 0 && static_cast<std::size_t>(length) <= positions,
                  "attention: a length beyond the positions");
    return static_cast<std::size_t>(length);
  }
  std::size_t shared() const { return heads / kv_heads; }
  // Where queries, keys and values of a key head begin within a position.
  std::size_t query_at(std::size_t group) const { return group * shared() * depth; }
  std::size_t key_at(std::size_t group) const { return (heads + group) * depth; }
  std::size_t value_at(std::size_t group) const { return (heads + kv_heads + group) * depth; }

  AttentionHeads group_of(const Setting& setting, std::size_t sample, std::size_t group) const {
    const float* source = setting.qkv.data + sample * positions * row;
    return {.query = source + query_at(group),
            .key = source + key_at(group),
            .value = source + value_at(group),
            .count = shared(),
            .row = row,
            .out_row = out_row,
            .length = length(setting, sample),
            .depth = depth,
            .positions = positions,
            .scale = 1.0f / std::sqrt(static_cast<float>(depth)),
            .causal = setting.causal};
  }
};

// Takes from the workspace; notes when it was too small.
struct Taking {
  tensor::Workspace& workspace;
  bool failed = false;
  float* operator()(std::size_t count) {
    float* data = workspace.take<float>(count);
    failed = failed || !data;
    return data;
  }
};

Error too_small() {
  return {ErrorCode::out_of_memory, "attention: the workspace is too small for this length"};
}

void clear_rows(float* data, std::size_t row, std::size_t first, std::size_t end) {
  std::fill(data + first * row, data + end * row, 0.0f);
}

constexpr auto kQueries = static_cast<std::size_t>(ops::kQueryBlock);
constexpr std::size_t kScores = kQueries * static_cast<std::size_t>(ops::kKeyBlock);

}  // namespace

Result<void> attention(tensor::Stream&, tensor::Workspace& workspace,
                       const ops::AttentionArgs& args) {
  const Setting setting{args.qkv, args.heads, args.kv_heads, args.causal, args.lengths};
  const Extents e(setting);
  const auto attention_heads = GPUNODE_PICK(attention_heads);
  tensor::Workspace::Scope scope(workspace);
  Taking take{workspace};
  const ForwardScratch scratch{.key = take(e.positions * e.width),
                               .value = take(e.positions * e.width),
                               .turned_query = take(e.depth * kQueries),
                               .scores = take(kScores),
                               .out = take(kQueries * e.width),
                               .factors = take(kQueries),
                               .tops = take(kQueries)};
  if (take.failed) return too_small();
  for (std::size_t b = 0; b < e.samples; ++b) {
    float* out = args.out.data + b * e.positions * e.out_row;
    float* statistics = args.statistics.data + b * e.heads * e.positions * 2;
    for (std::size_t group = 0; group < e.kv_heads; ++group)
      attention_heads(e.group_of(setting, b, group), scratch,
                      statistics + group * e.shared() * e.positions * 2, out + e.query_at(group));
    const std::size_t length = e.length(setting, b);
    clear_rows(out, e.out_row, length, e.positions);
    for (std::size_t h = 0; h < e.heads; ++h)
      clear_rows(statistics + h * e.positions * 2, 2, length, e.positions);
  }
  return {};
}

Result<void> attention_backward(tensor::Stream&, tensor::Workspace& workspace,
                                const ops::AttentionBackwardArgs& args) {
  const Setting setting{args.qkv, args.heads, args.kv_heads, args.causal, args.lengths};
  const Extents e(setting);
  const auto attention_heads_backward = GPUNODE_PICK(attention_heads_backward);
  tensor::Workspace::Scope scope(workspace);
  Taking take{workspace};
  const std::size_t rows = e.positions * e.width, block = kQueries * e.width;
  const BackwardScratch scratch{.key = take(rows),
                                .value = take(rows),
                                .dkey = take(rows),
                                .dvalue = take(rows),
                                .turned_query = take(e.depth * kQueries),
                                .turned_dout = take(e.depth * kQueries),
                                .query = take(block),
                                .dout = take(block),
                                .dquery = take(block),
                                .scores = take(kScores),
                                .dscores = take(kScores),
                                .tops = take(kQueries),
                                .inverse_sums = take(kQueries),
                                .means = take(kQueries)};
  if (take.failed) return too_small();
  for (std::size_t b = 0; b < e.samples; ++b) {
    float* dqkv = args.dqkv.data + b * e.positions * e.row;
    const float* statistics = args.statistics.data + b * e.heads * e.positions * 2;
    for (std::size_t group = 0; group < e.kv_heads; ++group) {
      const std::size_t at = b * e.positions * e.out_row + e.query_at(group);
      attention_heads_backward(e.group_of(setting, b, group), scratch,
                               {.dout = args.dout.data + at,
                                .out = args.out.data + at,
                                .statistics = statistics + group * e.shared() * e.positions * 2,
                                .dquery = dqkv + e.query_at(group),
                                .dkey = dqkv + e.key_at(group),
                                .dvalue = dqkv + e.value_at(group)});
    }
    clear_rows(dqkv, e.row, e.length(setting, b), e.positions);
  }
  return {};
}

}  // namespace gpunode::cpu
