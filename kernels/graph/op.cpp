// How each operation runs on a backend and what its gradient is made of: the table itself, and the
// rows of what GPT needs; those of other models stand in detail/*_rows.cpp.
#include "kernels/graph/op.hpp"

#include <algorithm>

#include "kernels/graph/detail/rows.hpp"

namespace gpunode::graph {
namespace {

Result<void> run_embedding(const Call& call) {
  return call.ops.embedding(call.stream, call.workspace,
                            {.tokens = call.tokens(0),
                             .token_table = call.in(1),
                             .position_table = call.in(2),
                             .x = call.out(0),
                             .segments = call.tokens(3),
                             .segment_table = call.in(4),
                             .positions = call.tokens(5),
                             .packed_table = call.packed_weights(1),
                             .weights = call.format(1)});
}

void embedding_gradient(Gradients& gradients, const Node& node) {
  const ValueId table = node.in[1], positions = node.in[2];
  const bool has_segments = node.in.size() > 3;
  const ValueId before = gradients.so_far(table);
  Ids in{node.in[0], gradients.of(node.out[0]), before}, out{gradients.extended(table)};
  const ValueId dpositions = positions == kNone ? kNone : gradients.place(positions);
  if (dpositions != kNone || has_segments) out.push_back(dpositions);
  if (has_segments) {
    in.push_back(node.in[3]);
    out.push_back(gradients.place(node.in[4]));
  }
  gradients.run(Op::embedding_backward, in, out);
  if (dpositions != kNone) gradients.give(positions, dpositions);
  if (has_segments) gradients.give(node.in[4], out.back());
}

Result<void> run_embedding_backward(const Call& call) {
  if (auto started = start_from(call, call.in(2), call.out(0)); !started) return started;
  return call.ops.embedding_backward(call.stream, call.workspace,
                                     {.tokens = call.tokens(0),
                                      .dx = call.in(1),
                                      .dtoken_table = call.out(0),
                                      .dposition_table = call.out(1),
                                      .segments = call.tokens(3),
                                      .dsegment_table = call.out(2)});
}

Result<void> run_layernorm(const Call& call) {
  return call.ops.layernorm(call.stream, call.workspace,
                            {.x = call.in(0),
                             .weight = call.in(1),
                             .bias = call.in(2),
                             .y = call.out(0),
                             .mean = call.out(1),
                             .rstd = call.out(2),
                             .epsilon = call.attributes.epsilon});
}

void layernorm_gradient(Gradients& gradients, const Node& node) {
  const ValueId x = node.in[0], weight = node.in[1], bias = node.in[2];
  const ValueId before = gradients.so_far(x);
  const Ids places{gradients.extended(x), gradients.place(weight), gradients.place(bias)};
  gradients.run(Op::layernorm_backward,
                {gradients.of(node.out[0]), x, weight, node.out[1], node.out[2], before}, places);
  gradients.give(weight, places[1]);
  gradients.give(bias, places[2]);
}

Result<void> run_layernorm_backward(const Call& call) {
  if (auto started = start_from(call, call.in(5), call.out(0)); !started) return started;
  return call.ops.layernorm_backward(call.stream, call.workspace,
                                     {.dy = call.in(0),
                                      .x = call.in(1),
                                      .weight = call.in(2),
                                      .mean = call.in(3),
                                      .rstd = call.in(4),
                                      .dx = call.out(0),
                                      .dweight = call.out(1),
                                      .dbias = call.out(2)});
}

// The weight of a linear layer where it is kept in another form than fp32; or as products in bf16 read
// it, where somebody keeps it.
Result<ByteView> packed_weight(const Call& call, bool transpose_b) {
  if (const ByteView kept = call.packed_weights(1); !kept.empty()) return kept;
  if (!call.packed || call.attributes.precision != Precision::bf16) return ByteView{};
  return call.packed->of(call, 1, transpose_b);
}

Result<ops::MatmulArgs> linear_product(const Call& call) {
  const tensor::ConstTensor weight = call.in(1);
  const auto packed = packed_weight(call, true);
  if (!packed) return packed.error();
  return ops::MatmulArgs{.a = as_rows(call.in(0), weight.shape[1]),
                         .b = weight,
                         .c = as_rows(call.out(0), weight.shape[0]),
                         .transpose_b = true,
                         .bias = call.in(2),
                         .precision = call.attributes.precision,
                         .packed_b = *packed,
                         .weights = call.format(1),
                         .independent_rows = call.attributes.independent_rows};
}

Result<void> run_linear(const Call& call) {
  const auto product = linear_product(call);
  return product ? call.ops.matmul(call.stream, call.workspace, *product) : product.error();
}

Result<void> run_linear_gelu(const Call& call) {
  auto product = linear_product(call);
  if (!product) return product.error();
  product->gelu = call.attributes.form;
  if (call.out_data[1]) product->before = as_rows(call.out(1), product->b.shape[0]);
  return call.ops.matmul(call.stream, call.workspace, *product);
}

void linear_gradient(Gradients& gradients, const Node& node) {
  const ValueId x = node.in[0], weight = node.in[1], bias = node.in[2];
  const ValueId dy = gradients.of(node.out[0]);
  if (gradients.wanted(weight)) {
    const ValueId before = gradients.so_far(weight);
    gradients.run(Op::linear_weight, {dy, x, before}, {gradients.extended(weight)});
  }
  if (gradients.wanted(bias)) {
    const ValueId dbias = gradients.place(bias);
    gradients.run(Op::column_sum, {dy}, {dbias});
    gradients.give(bias, dbias);
  }
  if (!gradients.wanted(x)) return;
  const ValueId dx = gradients.place(x);
  gradients.run(Op::linear_input, {dy, weight}, {dx});
  gradients.give(x, dx);
}

Result<void> run_linear_weight(const Call& call) {
  const tensor::Tensor dweight = call.out(0);
  if (call.has(2))
    if (auto started = start_from(call, call.in(2), dweight); !started) return started;
  return call.ops.matmul(call.stream, call.workspace,
                         {.a = as_rows(call.in(0), dweight.shape[0]),
                          .b = as_rows(call.in(1), dweight.shape[1]),
                          .c = dweight,
                          .transpose_a = true,
                          .accumulate = call.has(2),
                          .precision = call.attributes.precision});
}

Result<void> run_linear_input(const Call& call) {
  const tensor::ConstTensor weight = call.in(1);
  const auto packed = packed_weight(call, false);
  if (!packed) return packed.error();
  return call.ops.matmul(call.stream, call.workspace,
                         {.a = as_rows(call.in(0), weight.shape[0]),
                          .b = weight,
                          .c = as_rows(call.out(0), weight.shape[1]),
                          .precision = call.attributes.precision,
                          .packed_b = *packed});
}

// Of the three products that a weight (N, K) is in.
std::size_t product_bytes(const Graph& graph, const Node& node) {
  if (node.attributes.precision != Precision::bf16) return 0;
  const bool is_weight = node.op == Op::linear_weight;
  const bool is_forward = node.op == Op::linear || node.op == Op::linear_gelu;
  const tensor::Shape& weight = graph[is_weight ? node.out[0] : node.in[1]].shape;
  const std::int64_t N = weight[0], K = weight[1];
  const std::int64_t T = graph[node.in[0]].shape.element_count() / (is_forward ? K : N);
  if (is_weight) return ops::product_workspace_bytes({.rows = N, .columns = K, .inner = T});
  if (is_forward) return ops::product_workspace_bytes({.rows = T, .columns = N, .inner = K});
  return ops::product_workspace_bytes({.rows = T, .columns = K, .inner = N});
}

std::size_t column_sum_bytes(const Graph& graph, const Node& node) {
  const std::int64_t columns = graph[node.out[0]].shape.element_count();
  return ops::column_sum_workspace_bytes(graph[node.in[0]].shape.element_count() / columns,
                                         columns);
}

Result<void> run_column_sum(const Call& call) {
  return call.ops.column_sum(
      call.stream, call.workspace,
      {.x = as_rows(call.in(0), call.out(0).element_count()), .out = call.out(0)});
}

Result<void> run_gelu(const Call& call) {
  return call.ops.gelu(call.stream, call.workspace,
                       {.x = call.in(0), .y = call.out(0), .form = call.attributes.form});
}

void gelu_gradient(Gradients& gradients, const Node& node) {
  const ValueId dx = gradients.place(node.in[0]);
  gradients.run(Op::gelu_backward, {gradients.of(node.out[0]), node.in[0]}, {dx}, node.attributes);
  gradients.give(node.in[0], dx);
}

Result<void> run_gelu_backward(const Call& call) {
  return call.ops.gelu_backward(
      call.stream, call.workspace,
      {.dy = call.in(0), .x = call.in(1), .dx = call.out(0), .form = call.attributes.form});
}

std::size_t attention_bytes(const Graph& graph, const Node& node) {
  const std::int64_t heads = node.attributes.heads;
  const std::int64_t kv_heads = node.attributes.kv_heads == 0 ? heads : node.attributes.kv_heads;
  const tensor::Shape& qkv = graph[node.in[node.op == Op::attention_backward ? 1 : 0]].shape;
  const std::int64_t depth = qkv[2] / (heads + 2 * kv_heads);
  std::size_t bytes = ops::attention_workspace_bytes(qkv[1], depth, qkv[0] * heads * qkv[1]);
  if (node.attributes.precision == Precision::bf16)  // both ways: qkv and out
    bytes += ops::rounded_attention_bytes(2 * qkv[0] * qkv[1] * (qkv[2] + heads * depth));
  return bytes;
}

Result<void> run_attention(const Call& call) {
  return call.ops.attention(call.stream, call.workspace,
                            {.qkv = call.in(0),
                             .heads = call.attributes.heads,
                             .kv_heads = call.attributes.kv_heads,
                             .causal = call.attributes.causal,
                             .lengths = call.tokens(1),
                             .out = call.out(0),
                             .statistics = call.out(1),
                             .precision = call.attributes.precision});
}

void attention_gradient(Gradients& gradients, const Node& node) {
  const ValueId dqkv = gradients.place(node.in[0]);
  gradients.run(Op::attention_backward,
                {gradients.of(node.out[0]), node.in[0], node.out[0], node.out[1], node.in[1]},
                {dqkv}, node.attributes);
  gradients.give(node.in[0], dqkv);
}

Result<void> run_attention_backward(const Call& call) {
  return call.ops.attention_backward(call.stream, call.workspace,
                                     {.dout = call.in(0),
                                      .qkv = call.in(1),
                                      .out = call.in(2),
                                      .statistics = call.in(3),
                                      .heads = call.attributes.heads,
                                      .kv_heads = call.attributes.kv_heads,
                                      .causal = call.attributes.causal,
                                      .lengths = call.tokens(4),
                                      .dqkv = call.out(0),
                                      .precision = call.attributes.precision});
}

Result<void> run_add(const Call& call) {
  return call.ops.add(call.stream, call.workspace,
                      {.a = call.in(0), .b = call.in(1), .out = call.out(0)});
}

void add_gradient(Gradients& gradients, const Node& node) {
  for (const ValueId operand : node.in)
    if (gradients.wanted(operand)) gradients.give(operand, gradients.of(node.out[0]));
}

Result<void> run_cross_entropy(const Call& call) {
  return call.ops.cross_entropy(
      call.stream, call.workspace,
      {.logits = call.in(0), .targets = call.tokens(1), .losses = call.out(0), .dlogits = {}});
}

void cross_entropy_gradient(Gradients& gradients, const Node& node) {
  const ValueId dlogits = gradients.place(node.in[0]);
  gradients.run(Op::cross_entropy_backward, {node.in[0], node.in[1]}, {dlogits});
  gradients.give(node.in[0], dlogits);
}

std::size_t losses_bytes(const Graph& graph, const Node& node) {
  return graph[node.in[1]].bytes() + 64;
}

Result<void> run_cross_entropy_backward(const Call& call) {
  const tensor::TokenTensor targets = call.tokens(1);
  tensor::Workspace::Scope scope(call.workspace);
  float* losses = call.workspace.take<float>(static_cast<std::size_t>(targets.element_count()));
  if (!losses) return {ErrorCode::out_of_memory, "cross-entropy: the workspace is too small"};
  return call.ops.cross_entropy(call.stream, call.workspace,
                                {.logits = call.in(0),
                                 .targets = targets,
                                 .losses = {losses, targets.shape},
                                 .dlogits = call.out(0)});
}

using O = Operations;
// In the order of `Op`; rows of other files are made there.
const OpRow kRows[] = {
    {"embedding",
     costs::embedding,
     is_on<&O::embedding>,
     run_embedding,
     embedding_gradient,
     {},
     nullptr,
     costs::embedding_bytes},
    {"layernorm", costs::each_result<7>, is_on<&O::layernorm>, run_layernorm, layernorm_gradient},
    {"linear", costs::linear, is_on<&O::matmul>, run_linear, linear_gradient, {}, product_bytes},
    {"gelu", costs::gelu, is_on<&O::gelu>, run_gelu, gelu_gradient},
    {"attention",
     costs::attention,
     is_on<&O::attention>,
     run_attention,
     attention_gradient,
     {},
     attention_bytes},
    rows::attention_paged(),
    {"add", costs::each_result<1>, is_on<&O::add>, run_add, add_gradient, {{0, 1}, {0, 0}}},
    rows::take_rows(),
    {"cross_entropy", costs::each_operand<4>, is_on<&O::cross_entropy>, run_cross_entropy,
     cross_entropy_gradient},
    {"embedding_backward",
     costs::embedding_backward,
     is_on<&O::embedding_backward>,
     run_embedding_backward,
     nullptr,
     {{0, 2}},
     nullptr,
     costs::embedding_backward_bytes},
    {"layernorm_backward",
     costs::each_result_added<13>,
     is_on<&O::layernorm_backward>,
     run_layernorm_backward,
     nullptr,
     {{0, 5}},
     norm_backward_bytes},
    {"linear_weight",
     costs::linear_weight,
     is_on<&O::matmul>,
     run_linear_weight,
     nullptr,
     {{0, 2}},
     product_bytes},
    {"linear_input",
     costs::linear_input,
     is_on<&O::matmul>,
     run_linear_input,
     nullptr,
     {},
     product_bytes},
    {"column_sum",
     costs::each_operand<1>,
     is_on<&O::column_sum>,
     run_column_sum,
     nullptr,
     {},
     column_sum_bytes},
    {"gelu_backward",
     costs::gelu_backward,
     is_on<&O::gelu_backward>,
     run_gelu_backward,
     nullptr,
     {{0, 0}}},
    {"attention_backward",
     costs::attention_backward,
     is_on<&O::attention_backward>,
     run_attention_backward,
     nullptr,
     {},
     attention_bytes},
    {"cross_entropy_backward",
     costs::each_operand<5>,
     is_on<&O::cross_entropy>,
     run_cross_entropy_backward,
     nullptr,
     {{0, 0}},
     losses_bytes},
    rows::cross_entropy_both(),
    {"linear_gelu",
     costs::linear_gelu,
     is_on<&O::matmul>,
     run_linear_gelu,
     nullptr,
     {},
     product_bytes},
    rows::add_layernorm(),
    rows::add_rmsnorm(),
    rows::rmsnorm(),
    rows::rmsnorm_backward(),
    rows::swiglu(),
    rows::swiglu_backward(),
    rows::rotary(),
    rows::relu(),
    rows::relu_backward(),
    rows::tanh(),
    rows::tanh_backward(),
    rows::conv2d(),
    rows::conv2d_backward(),
    rows::batchnorm(),
    rows::batchnorm_backward(),
    rows::batchnorm_inference(),
    rows::batchnorm_statistics(),
    rows::max_pool2d(),
    rows::max_pool2d_backward(),
    rows::mean_pool(),
    rows::mean_pool_backward(),
};
static_assert(std::size(kRows) == static_cast<std::size_t>(Op::count));

}  // namespace

const OpRow& row_of(Op op) {
  return kRows[static_cast<std::size_t>(op)];
}

Cost cost_of(const Graph& graph, const Node& node) {
  const OpRow& row = row_of(node.op);
  CostRule* const bytes = row.bytes ? row.bytes : costs::all_bytes;
  return {.flops = row.flops(graph, node), .bytes = bytes(graph, node)};
}

Cost cost_of(const Graph& graph) {
  Cost sum;
  for (const Node& node : graph.nodes) sum += cost_of(graph, node);
  return sum;
}

}  // namespace gpunode::graph
