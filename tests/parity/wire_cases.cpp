// Rows of the parity table whose results are bytes: forms of floats for slow links, and digests of
// blocks. Bytes are not graded in float64, only held against the CPU's; what they unpack to is.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "tests/parity/op_table.hpp"

namespace gpunode::parity {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::size_t floats_for(std::size_t bytes) {
  return bytes / sizeof(float) + 2;  // and what shifting them by a few bytes takes
}

// The wire's bytes begin `shift` bytes into the first output: they need no alignment.
struct WireShape {
  std::int64_t count, shift;
  bool special;  // with values that are not finite, blocks of zeros, and tiny ones
};

Vector wire_values(const WireShape& shape) {
  Vector values = numbers(1, shape.count);
  if (!shape.special) return values;
  const auto at = [&](std::int64_t place) -> float& {
    return values[static_cast<std::size_t>(place % shape.count)];
  };
  at(3) = std::nanf("");
  at(300) = kInfinity;
  at(600) = -kInfinity;
  at(601) = -std::nanf("7");
  for (std::int64_t place = 768; place < 1024 && place < shape.count; ++place) at(place) = 0;
  for (std::int64_t place = 1024; place < 1280 && place < shape.count; ++place)
    at(place) = -0x1p-110f;
  return values;
}

// What unpacking is to give: the values, NaN where a whole group of `group` is not graded.
Vector64 graded(const Vector64& values, std::size_t group) {
  Vector64 wanted = values;
  for (std::size_t begin = 0; begin < values.size(); begin += group) {
    const std::size_t end = std::min(begin + group, values.size());
    bool finite = true;
    for (std::size_t i = begin; i < end; ++i) finite = finite && std::isfinite(values[i]);
    if (!finite)
      std::fill(wanted.begin() + static_cast<std::ptrdiff_t>(begin),
                wanted.begin() + static_cast<std::ptrdiff_t>(end), std::nan(""));
  }
  return wanted;
}

Case wire_case(const std::string& operation, const WireShape& shape, std::size_t bytes) {
  Case one;
  one.name =
      operation + " " + shape_text({shape.count, shape.shift}) + (shape.special ? " special" : "");
  one.operation = operation;
  one.inputs = {wire_values(shape)};
  one.output_sizes = {floats_for(bytes), one.inputs[0].size()};
  one.tolerance = 1.0 / 254;  // half a step of int8, and of bf16, for values up to 1
  return one;
}

MutableByteView bytes_of(Run& run, const WireShape& shape, std::size_t bytes) {
  return {reinterpret_cast<std::byte*>(run.out[0]) + shape.shift, bytes};
}

void add_bf16(std::vector<Case>& table, const WireShape& shape) {
  const std::size_t bytes = ops::bf16_bytes(static_cast<std::size_t>(shape.count));
  Case one = wire_case("wire_bf16", shape, bytes);
  one.run = [=](Run& run) -> Result<void> {
    const MutableByteView wire = bytes_of(run, shape, bytes);
    auto done = run.ops.pack_bf16(run.stream, run.workspace, {{run.in[0], {shape.count}}, wire});
    if (!done) return done;
    return run.ops.unpack_bf16(run.stream, run.workspace, {wire, {run.out[1], {shape.count}}});
  };
  const Vector64 ungraded(one.output_sizes[0], std::nan(""));
  one.reference = [=](const std::vector<Vector64>& in) {
    return std::vector<Vector64>{ungraded, graded(in[0], 1)};
  };
  table.push_back(std::move(one));
}

void add_int8(std::vector<Case>& table, const WireShape& shape) {
  const std::size_t bytes = ops::int8_bytes(static_cast<std::size_t>(shape.count));
  Case one = wire_case("wire_int8", shape, bytes);
  one.run = [=](Run& run) -> Result<void> {
    const MutableByteView wire = bytes_of(run, shape, bytes);
    auto done = run.ops.pack_int8(run.stream, run.workspace, {{run.in[0], {shape.count}}, wire});
    if (!done) return done;
    return run.ops.unpack_int8(run.stream, run.workspace, {wire, {run.out[1], {shape.count}}});
  };
  const Vector64 ungraded(one.output_sizes[0], std::nan(""));
  one.reference = [=](const std::vector<Vector64>& in) {
    return std::vector<Vector64>{ungraded, graded(in[0], ops::kInt8Block)};
  };
  table.push_back(one);

  // The same with what earlier packing lost, and without; outputs: bytes, what arrives, what is lost.
  one.operation = "wire_int8_carrying";
  one.name.replace(0, std::string("wire_int8").size(), one.operation);
  one.inputs.push_back(numbers(2, shape.count, 0.01));
  one.output_sizes.push_back(one.inputs[0].size());
  const bool carrying = shape.shift == 0;
  one.run = [=](Run& run) {
    return run.ops.pack_int8_carrying(run.stream, run.workspace,
                                      {.in = {run.in[0], {shape.count}},
                                       .carried = carrying ? run.in[1] : nullptr,
                                       .lost = run.out[2],
                                       .arrives = run.out[1],
                                       .out = bytes_of(run, shape, bytes)});
  };
  one.reference = [=](const std::vector<Vector64>& in) {
    Vector64 sum = in[0];
    for (std::size_t i = 0; carrying && i < sum.size(); ++i) sum[i] += in[1][i];
    return std::vector<Vector64>{ungraded, graded(sum, ops::kInt8Block), Vector64(sum.size(), 0.5)};
  };
  table.push_back(std::move(one));
}

// Keeps a quarter of the values: what unpacking gives is these, and zero elsewhere.
void add_top(std::vector<Case>& table, const WireShape& shape) {
  const std::size_t kept = (static_cast<std::size_t>(shape.count) + 3) / 4;
  const std::size_t bytes = ops::top_bytes(kept);
  Case one = wire_case("wire_top", shape, bytes);
  one.run = [=](Run& run) -> Result<void> {
    const MutableByteView wire = bytes_of(run, shape, bytes);
    auto done = run.ops.pack_top(run.stream, run.workspace, {{run.in[0], {shape.count}}, wire});
    if (!done) return done;
    return run.ops.unpack_top(run.stream, run.workspace, {wire, {run.out[1], {shape.count}}});
  };
  const Vector64 ungraded(one.output_sizes[0], std::nan(""));
  one.reference = [=, floats = one.inputs[0]](const std::vector<Vector64>& in) {
    std::vector<std::size_t> places(floats.size());
    std::iota(places.begin(), places.end(), std::size_t{0});
    std::ranges::stable_sort(places, std::greater(), [&](std::size_t place) {
      return std::bit_cast<std::uint32_t>(std::fabs(floats[place])) >> 15;  // of 31 bits
    });
    Vector64 wanted(floats.size());
    for (std::size_t at = 0; at < kept; ++at) wanted[places[at]] = in[0][places[at]];
    return std::vector<Vector64>{ungraded, graded(wanted, 1)};
  };
  table.push_back(std::move(one));
}

// Digests of the first bytes of the input, for each of many lengths, in blocks of one size.
void add_digest(std::vector<Case>& table, const std::string& name,
                const std::vector<std::size_t>& lengths, std::size_t block_bytes,
                std::size_t shift) {
  std::size_t longest = 0, words = 0;
  for (std::size_t length : lengths) {
    longest = std::max(longest, length);
    words += 2 * (length / block_bytes + 1);
  }
  Case one;
  one.name = "block_digest " + name;
  one.operation = "block_digest";
  one.inputs = {numbers(1, static_cast<std::int64_t>(floats_for(longest + shift)))};
  one.output_sizes = {2 * words};
  one.run = [=](Run& run) -> Result<void> {
    const auto* bytes = reinterpret_cast<const std::byte*>(run.in[0]) + shift;
    auto* out = reinterpret_cast<std::uint64_t*>(run.out[0]);
    for (std::size_t length : lengths) {
      auto done =
          run.ops.block_digest(run.stream, run.workspace,
                               {.in = {bytes, length}, .block_bytes = block_bytes, .out = out});
      if (!done) return done;
      out += 2 * (length / block_bytes + 1);
    }
    return {};
  };
  const Vector64 ungraded(one.output_sizes[0], std::nan(""));
  one.reference = [=](const std::vector<Vector64>&) { return std::vector<Vector64>{ungraded}; };
  table.push_back(std::move(one));
}

}  // namespace

void add_wire_cases(std::vector<Case>& table) {
  for (const WireShape& shape :
       {WireShape{1, 0, false}, {255, 1, false}, {2051, 0, true}, {1300, 2, true}}) {
    add_bf16(table, shape);
    add_int8(table, shape);
    add_top(table, shape);
  }
  // Every length has a form of its own up to 240 bytes; beyond, what counts are stripes of 64 and
  // rounds of 1,024 bytes.
  std::vector<std::size_t> lengths;
  for (std::size_t length = 0; length <= 260; length += length < 20 ? 1 : 5)
    lengths.push_back(length);
  for (std::size_t border : {32, 64, 96, 128, 240, 320, 1024, 1088, 2048})
    for (std::size_t length : {border - 1, border, border + 1}) lengths.push_back(length);
  add_digest(table, "lengths", lengths, 1u << 16, 0);
  add_digest(table, "lengths of bytes that are not aligned", {7, 100, 200, 3000}, 1u << 16, 3);
  add_digest(table, "64 KiB", {(1u << 16) + 777}, 1u << 16, 0);
  add_digest(table, "many blocks", {20 * 1040 + 100, 4 * 1040}, 1040, 0);
}

}  // namespace gpunode::parity
