#include "tests/parity/op_table.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "runtime/base/rng.hpp"

namespace gpunode::parity {

const std::vector<Case>& cases() {
  static const std::vector<Case> table = [] {
    std::vector<Case> rows;
    add_forward_cases(rows);
    add_backward_cases(rows);
    add_sequence_cases(rows);
    add_decoding_cases(rows);
    add_wire_cases(rows);
    add_image_cases(rows);
    add_block_cases(rows);
    add_fused_cases(rows);
    return rows;
  }();
  return table;
}

Vector numbers(std::uint64_t seed, std::int64_t count, double range) {
  Rng rng(seed);
  Vector values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>((2 * rng.uniform() - 1) * range);
  return values;
}

std::vector<std::int32_t> token_numbers(std::uint64_t seed, std::int64_t count,
                                        std::int64_t bound) {
  Rng rng(seed);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (std::int32_t& token : tokens)
    token = static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(bound)));
  return tokens;
}

std::string shape_text(std::initializer_list<std::int64_t> extents) {
  std::string text;
  for (std::int64_t extent : extents) text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text;
}

std::vector<Vector64> widen(const std::vector<Vector>& inputs) {
  std::vector<Vector64> wide;
  for (const Vector& input : inputs) wide.emplace_back(input.begin(), input.end());
  return wide;
}

namespace {

// A float64 as three floats whose sum it is.
Vector parts_of(const std::vector<double>& sums) {
  Vector parts;
  for (double rest : sums)
    for (int part = 0; part < 3; ++part) {
      parts.push_back(static_cast<float>(rest));
      rest -= parts.back();
    }
  return parts;
}

}  // namespace

Result<std::vector<Vector>> run_case(const Case& one, ops::Backend& backend, std::size_t shift) {
  tensor::BufferPool pool(backend.memory(), 1ull << 30);
  tensor::Workspace workspace(pool);
  if (auto done = workspace.reserve(8 << 20); !done) return done.error();
  auto stream = backend.open_stream();
  if (!stream) return stream.error();

  std::vector<tensor::Buffer> buffers;
  Run run{backend.operations(), **stream, workspace, {}, {}};
  const auto place = [&]<class T>(const std::vector<T>& values) -> Result<T*> {
    const std::size_t before = std::is_same_v<T, float> ? shift : 0;
    auto buffer = pool.take((values.size() + before) * sizeof(T));
    if (!buffer) return buffer.error();
    T* data = buffer->template as<T>() + before;
    buffers.push_back(std::move(*buffer));
    if (auto done = backend.upload(**stream, std::as_bytes(std::span(values)), data); !done)
      return done.error();
    return data;
  };
  for (const Vector& input : one.inputs) {
    auto data = place(input);
    if (!data) return data.error();
    run.in.push_back(*data);
  }
  std::vector<Vector> starts;  // an upload reads its source when it runs
  starts.reserve(one.output_sizes.size());
  for (std::size_t size : one.output_sizes) {
    auto data = place(starts.emplace_back(size, 0.5f));
    if (!data) return data.error();
    run.out.push_back(*data);
  }
  if (!one.tokens.empty()) {
    auto data = place(one.tokens);
    if (!data) return data.error();
    run.tokens = *data;
  }
  const std::vector<double> sum_starts(one.sums, 0.5);
  std::vector<double> sums(one.sums);
  if (one.sums > 0) {
    auto data = place(sum_starts);
    if (!data) return data.error();
    run.sums = *data;
  }
  if (auto done = one.run(run); !done) return done.error();
  std::vector<Vector> outputs;
  for (std::size_t index = 0; index < one.output_sizes.size(); ++index) {
    outputs.emplace_back(one.output_sizes[index]);
    if (auto done = backend.download(**stream, run.out[index],
                                     std::as_writable_bytes(std::span(outputs.back())));
        !done)
      return done.error();
  }
  if (one.sums > 0) {
    auto done = backend.download(**stream, run.sums, std::as_writable_bytes(std::span(sums)));
    if (!done) return done.error();
  }
  if (auto done = (*stream)->synchronise(); !done) return done.error();
  if (one.sums > 0) outputs.push_back(parts_of(sums));
  return outputs;
}

bool has_operation(const ops::Operations& table, const std::string& operation) {
  if (operation == "wire_bf16") return table.pack_bf16 && table.unpack_bf16;
  if (operation == "wire_int8") return table.pack_int8 && table.unpack_int8;
  if (operation == "wire_top") return table.pack_top && table.unpack_top;
  if (operation == "wire_int8_carrying") return table.pack_int8_carrying && table.unpack_int8;
  if (operation == "block_digest") return table.block_digest;
  if (operation == "matmul_bf16") return table.pack_product;
  const auto absent = table.absent();
  return std::find(absent.begin(), absent.end(), operation) == absent.end();
}

bool has_the_same_bits(const std::string& operation) {
  static const std::set<std::string> kNames = {"gelu",          "gelu_backward",
                                               "embedding",     "embedding_backward",
                                               "add",           "column_sum",
                                               "adamw",         "square_sum",
                                               "swiglu",        "swiglu_backward",
                                               "rotary",        "relu",
                                               "relu_backward", "tanh",
                                               "tanh_backward", "wire_bf16",
                                               "wire_int8",     "wire_int8_carrying",
                                               "wire_top",      "block_digest",
                                               "batchnorm",     "batchnorm_statistics",
                                               "follow",        "batchnorm_backward",
                                               "max_pool2d",    "max_pool2d_backward",
                                               "mean_pool",     "mean_pool_backward"};
  return kNames.contains(operation);
}

bool same_bits(const std::vector<Vector>& left, const std::vector<Vector>& right) {
  for (std::size_t index = 0; index < left.size(); ++index)
    if (std::memcmp(left[index].data(), right[index].data(), left[index].size() * sizeof(float)) !=
        0)
      return false;
  return left.size() == right.size();
}

double worst_difference(const std::vector<Vector>& outputs,
                        const std::vector<Vector64>& reference) {
  double worst = 0;
  for (std::size_t index = 0; index < outputs.size(); ++index) {
    for (std::size_t place = 0; place < outputs[index].size(); ++place) {
      const double expected = reference[index][place];
      if (std::isnan(expected)) continue;
      if (!std::isfinite(outputs[index][place])) return std::numeric_limits<double>::infinity();
      worst =
          std::max(worst, std::abs(outputs[index][place] - expected) / (1 + std::abs(expected)));
    }
  }
  return worst;
}

}  // namespace gpunode::parity
