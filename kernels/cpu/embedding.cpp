#include "kernels/ops/embedding.hpp"

#include "kernels/cpu/operations.hpp"

#define GPUNODE_ISA_BODY "kernels/cpu/detail/add_body.inc"
#include "kernels/cpu/detail/for_each_isa.inc"

namespace gpunode::cpu {

namespace {

const float* row_of(const tensor::ConstTensor& table, std::int64_t row, const char* what) {
  GPUNODE_CHECK(row >= 0 && row < table.shape[0], what);
  return table.data + row * table.shape[1];
}

tensor::ConstTensor read(const tensor::Tensor& table) {
  return table;
}

float* row_of(const tensor::Tensor& table, std::int64_t row, const char* what) {
  return const_cast<float*>(row_of(read(table), row, what));
}

constexpr const char* kNoToken = "embedding: token outside the vocabulary";
constexpr const char* kNoPosition = "embedding: more positions than the table has";
constexpr const char* kNoSegment = "embedding: segment outside its table";

// A row of the token table, or, of a packed one, what it stands for, in `x`.
const float* token_row(const ops::EmbeddingArgs& args, std::int64_t token, float* x) {
  if (args.packed_table.empty()) return row_of(args.token_table, token, kNoToken);
  GPUNODE_CHECK(token >= 0 && token < args.token_table.shape[0], kNoToken);
  const std::int64_t channels = args.token_table.shape[1];
  const std::size_t bytes = ops::weight_row_bytes(args.weights, channels);
  ops::unpack_weights(args.weights,
                      args.packed_table.subspan(static_cast<std::size_t>(token) * bytes, bytes),
                      {x, static_cast<std::size_t>(channels)});
  return x;
}

}  // namespace

Result<void> embedding(tensor::Stream&, tensor::Workspace&, const ops::EmbeddingArgs& args) {
  const std::int64_t samples = args.tokens.shape[0], positions = args.tokens.shape[1];
  const std::int64_t channels = args.token_table.shape[1];
  const auto width = static_cast<std::size_t>(channels);
  const auto add = GPUNODE_PICK(add);
  const auto add_three = GPUNODE_PICK(add_three);
  float* x = args.x.data;
  std::int64_t place = 0;
  for (std::int64_t b = 0; b < samples; ++b) {
    for (std::int64_t t = 0; t < positions; ++t, ++place, x += channels) {
      const float* token = token_row(args, args.tokens.data[place], x);
      const float* rows[2] = {};
      std::size_t more = 0;
      if (args.position_table)
        rows[more++] = row_of(args.position_table, args.positions ? args.positions.data[place] : t,
                              kNoPosition);
      if (args.segments)
        rows[more++] = row_of(args.segment_table, args.segments.data[place], kNoSegment);
      if (more == 2)
        add_three(token, rows[0], rows[1], x, width);
      else if (more == 1)
        add(token, rows[0], x, width);
      else if (token != x)
        std::copy_n(token, width, x);
    }
  }
  return {};
}

Result<void> embedding_backward(tensor::Stream&, tensor::Workspace&,
                                const ops::EmbeddingBackwardArgs& args) {
  const std::int64_t samples = args.tokens.shape[0], positions = args.tokens.shape[1];
  const std::int64_t channels = args.dtoken_table.shape[1];
  const auto width = static_cast<std::size_t>(channels);
  const auto add = GPUNODE_PICK(add);
  for (const tensor::Tensor& table : {args.dposition_table, args.dsegment_table})
    if (table) std::fill_n(table.data, table.element_count(), 0.0f);
  const float* dx = args.dx.data;
  std::int64_t place = 0;
  for (std::int64_t b = 0; b < samples; ++b) {
    for (std::int64_t t = 0; t < positions; ++t, ++place, dx += channels) {
      float* token = row_of(args.dtoken_table, args.tokens.data[place], kNoToken);
      add(token, dx, token, width);
      if (args.dposition_table) {
        float* position = row_of(args.dposition_table, t, kNoPosition);
        add(position, dx, position, width);
      }
      if (args.segments) {
        float* segment = row_of(args.dsegment_table, args.segments.data[place], kNoSegment);
        add(segment, dx, segment, width);
      }
    }
  }
  return {};
}

}  // namespace gpunode::cpu
