#include "kernels/cpu/operations.hpp"
#include "kernels/ops/attention.hpp"

namespace gpunode::cpu {

// A head of the cached rows of a text, which lie in pages.
struct CachedRows {
  const float* from;          // the head, in the cache's first row
  const std::int32_t* pages;  // of the text
  std::size_t page, row;      // rows of a page, values of a row
};

struct CachedHead {
  const float* query;  // (D)
  CachedRows keys, values;
  std::size_t depth, seen;
  float scale;
  float* scores;  // (seen in whole vectors), scratch
  float* out;     // (D)
};

}  // namespace gpunode::cpu

#define GPUNODE_ISA_BODY "kernels/cpu/detail/attention_paged_body.inc"
#include "kernels/cpu/detail/for_each_isa.inc"

namespace gpunode::cpu {
namespace {

// Where the row's text has its pages, and the row its place in the cache.
struct RowPlace {
  const std::int32_t* pages;
  std::size_t position, cached;
};

RowPlace place_of(const ops::AttentionPagedArgs& args, std::int64_t row) {
  const std::int64_t text = args.texts.data[row], position = args.positions.data[row];
  GPUNODE_CHECK(text >= 0 && text < args.pages.shape[0] && position >= 0 &&
                    position / args.page < args.pages.shape[1],
                "attention_paged: a row of no text, or beyond its text's pages");
  const std::int32_t* pages = args.pages.data + text * args.pages.shape[1];
  const std::int64_t cached = pages[position / args.page] * args.page + position % args.page;
  GPUNODE_CHECK(cached >= 0 && cached < args.keys.shape[0],
                "attention_paged: a page outside the cache");
  return {pages, static_cast<std::size_t>(position), static_cast<std::size_t>(cached)};
}

}  // namespace

Result<void> attention_paged(tensor::Stream&, tensor::Workspace& workspace,
                             const ops::AttentionPagedArgs& args) {
  const std::int64_t H = args.heads, K = args.kv_heads == 0 ? H : args.kv_heads;
  GPUNODE_CHECK(H > 0 && K > 0 && H % K == 0 && args.qkv.shape[1] % (H + 2 * K) == 0,
                "attention_paged: the heads do not divide the joined projection");
  tensor::Workspace::Scope scope(workspace);
  float* scores = workspace.take<float>(
      static_cast<std::size_t>(ops::padded_row(args.pages.shape[1] * args.page)));
  if (!scores) return {ErrorCode::out_of_memory, "attention_paged: the workspace is too small"};
  const auto attend = GPUNODE_PICK(attention_paged_head);
  const std::int64_t rows = args.qkv.shape[0];
  const auto joined = static_cast<std::size_t>(args.qkv.shape[1]);
  const auto heads = static_cast<std::size_t>(H), kv_heads = static_cast<std::size_t>(K);
  const std::size_t depth = joined / (heads + 2 * kv_heads);
  const std::size_t row = kv_heads * depth, out_row = heads * depth;
  const float scale = 1.0f / std::sqrt(static_cast<float>(depth));
  const float* from = args.qkv.data;
  for (std::int64_t r = 0; r < rows; ++r, from += joined) {
    const std::size_t cached = place_of(args, r).cached * row;
    std::copy_n(from + out_row, row, args.keys.data + cached);
    std::copy_n(from + out_row + row, row, args.values.data + cached);
  }
  from = args.qkv.data;
  float* out = args.out.data;
  for (std::int64_t r = 0; r < rows; ++r, from += joined) {
    const RowPlace place = place_of(args, r);
    for (std::size_t h = 0; h < heads; ++h, out += depth) {
      CachedRows keys{args.keys.data, place.pages, static_cast<std::size_t>(args.page), row};
      keys.from += h / (heads / kv_heads) * depth;
      CachedRows values = keys;
      values.from = args.values.data + (keys.from - args.keys.data);
      attend({from + h * depth, keys, values, depth, place.position + 1, scale, scores, out});
    }
  }
  return {};
}

}  // namespace gpunode::cpu
