// The one table of operations for the parity tests: each row has a name, shapes, the tolerance
// against a float64 reference, and how to run it on a backend and in float64. Inputs are made from
// the row alone, so every test that uses a row sees the same numbers. The reference of a backward
// operation is the finite difference of its forward definition.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/ops/backend.hpp"

namespace gpunode::parity {

using Vector = std::vector<float>;
using Vector64 = std::vector<double>;

struct Run {  // what a case's float32 side works with; the numbers lie in the device's memory
  const ops::Operations& ops;
  tensor::Stream& stream;
  tensor::Workspace& workspace;
  std::vector<float*> in;
  std::vector<float*> out;  // filled with 0.5 at the start
  const std::int32_t* tokens = nullptr;
  double* sums = nullptr;
};

struct Case {
  std::string name;       // "layernorm 192x128"
  std::string operation;  // "layernorm", as in Operations::absent()
  std::vector<Vector> inputs;
  std::vector<std::size_t> output_sizes;
  std::vector<std::int32_t> tokens = {};
  std::size_t sums = 0;  // float64 outputs; graded last, as (sums, 3): parts of falling magnitude
  double tolerance = 1e-5;  // of |difference| against 1 + |reference|
  std::function<Result<void>(Run&)> run;
  // From the definition, in float64; NaN where a result is not graded.
  std::function<std::vector<Vector64>(const std::vector<Vector64>& in)> reference;
};

// Every row with every shape.
const std::vector<Case>& cases();
void add_forward_cases(std::vector<Case>& table);
void add_backward_cases(std::vector<Case>& table);
void add_wire_cases(std::vector<Case>& table);
void add_sequence_cases(std::vector<Case>& table);
void add_decoding_cases(std::vector<Case>& table);
void add_image_cases(std::vector<Case>& table);
void add_block_cases(std::vector<Case>& table);
void add_fused_cases(std::vector<Case>& table);

// `count` values in [-range, range], a function of seed alone.
Vector numbers(std::uint64_t seed, std::int64_t count, double range = 1.0);
std::vector<std::int32_t> token_numbers(std::uint64_t seed, std::int64_t count, std::int64_t bound);
std::string shape_text(std::initializer_list<std::int64_t> extents);

// Whether a table has what the rows of this operation need.
bool has_operation(const ops::Operations& table, const std::string& operation);
// Whether every device gives the CPU's bits: no sum over elements is involved, or one in a fixed
// order.
bool has_the_same_bits(const std::string& operation);
bool same_bits(const std::vector<Vector>& left, const std::vector<Vector>& right);

// The outputs of a case on a backend, copied to the device and back. Arrays of floats lie `shift`
// floats beyond an aligned address: parameters of a model stand anywhere in a flat vector.
Result<std::vector<Vector>> run_case(const Case& one, ops::Backend& backend, std::size_t shift = 0);

// Largest |difference| / (1 + |reference|) over what is graded; infinity if a value is not finite.
double worst_difference(const std::vector<Vector>& outputs, const std::vector<Vector64>& reference);

std::vector<Vector64> widen(const std::vector<Vector>& inputs);

}  // namespace gpunode::parity
