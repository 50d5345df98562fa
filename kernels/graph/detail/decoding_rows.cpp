// Rows of the table of operations that only decoding has.
#include "kernels/graph/detail/rows.hpp"

namespace gpunode::graph {
namespace {

using O = Operations;

std::size_t attention_paged_bytes(const Graph& graph, const Node& node) {
  const std::int64_t most = graph[node.in[5]].shape[1] * node.attributes.page;
  return static_cast<std::size_t>(ops::padded_row(most)) * sizeof(float);
}

Result<void> run_attention_paged(const Call& call) {
  const tensor::ConstTensor qkv = call.in(0);
  return call.ops.attention_paged(call.stream, call.workspace,
                                  {.qkv = as_rows(qkv, qkv.shape[qkv.shape.rank() - 1]),
                                   .heads = call.attributes.heads,
                                   .kv_heads = call.attributes.kv_heads,
                                   .positions = call.tokens(3),
                                   .texts = call.tokens(4),
                                   .pages = call.tokens(5),
                                   .page = call.attributes.page,
                                   .keys = call.state(1),
                                   .values = call.state(2),
                                   .out = call.out(0)});
}

// As from a table of embeddings.
Result<void> run_take_rows(const Call& call) {
  const tensor::ConstTensor x = call.in(1);
  return call.ops.embedding(call.stream, call.workspace,
                            {.tokens = call.tokens(0),
                             .token_table = as_rows(x, x.shape[x.shape.rank() - 1]),
                             .position_table = {},
                             .x = call.out(0)});
}

}  // namespace

OpRow rows::attention_paged() {
  return {"attention_paged",
          costs::attention_paged,
          is_on<&O::attention_paged>,
          run_attention_paged,
          nullptr,
          {},
          attention_paged_bytes};
}

OpRow rows::take_rows() {
  return {"take_rows", costs::none, is_on<&O::embedding>,  run_take_rows, nullptr,
          {},          nullptr,     costs::take_rows_bytes};
}

}  // namespace gpunode::graph
