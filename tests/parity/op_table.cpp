#include "tests/parity/op_table.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/base/rng.hpp"

namespace gpunode::parity {

const std::vector<Case>& cases() {
  static const std::vector<Case> table = [] {
    std::vector<Case> rows;
    add_forward_cases(rows);
    add_backward_cases(rows);
    add_sequence_cases(rows);
    add_image_cases(rows);
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

Result<std::vector<Vector>> run_case(const Case& one, ops::Backend& backend) {
  tensor::BufferPool pool(backend.memory(), 1ull << 30);
  tensor::Workspace workspace(pool);
  if (auto done = workspace.reserve(8 << 20); !done) return done.error();
  auto stream = backend.open_stream();
  if (!stream) return stream.error();

  std::vector<tensor::Buffer> buffers;
  Run run{backend.operations(), **stream, workspace, {}, {}};
  const auto place = [&](const Vector& values) -> Result<float*> {
    auto buffer = pool.take(values.size() * sizeof(float));
    if (!buffer) return buffer.error();
    float* data = buffer->as<float>();
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
  for (std::size_t size : one.output_sizes) {
    auto data = place(Vector(size, 0.5f));
    if (!data) return data.error();
    run.out.push_back(*data);
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
  if (auto done = (*stream)->synchronise(); !done) return done.error();
  return outputs;
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
