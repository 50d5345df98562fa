// Products in bf16: oneDNN's where the processor has instructions for them (AVX512-BF16, AMX); else
// the product in float32 of rounded factors. Factors are rounded into the workspace; the right one
// besides into the blocks that oneDNN's product reads. A prepared product is kept by each thread for
// each shape that it meets: making one takes as long as a small product.
#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <unordered_map>

#include "kernels/cpu/detail/bf16_blocks.hpp"
#include "kernels/cpu/detail/onednn.hpp"
#include "kernels/cpu/operations.hpp"

namespace gpunode::cpu {
namespace {

using Desc = dnnl::memory::desc;
using Type = dnnl::memory::data_type;
using Layout = dnnl::memory::format_tag;

bool has_instructions() {
  return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_bf16) ==
         dnnl_cpu_isa_avx512_core_bf16;
}

const dnnl::engine& engine() {
  static const dnnl::engine one(dnnl::engine::kind::cpu, 0);
  return one;
}

dnnl::memory memory_of(const Desc& desc, const void* data) {
  return {desc, engine(), const_cast<void*>(data)};
}

Error too_small() {
  return {ErrorCode::out_of_memory, "a product in bf16: the workspace is too small"};
}

// Where a product takes place.
struct Site {
  tensor::Stream& stream;
  tensor::Workspace& workspace;
};

// `count` values as bf16.
Result<void> round_to(const Site& site, const float* values, std::byte* out, std::int64_t count) {
  const auto bytes = ops::bf16_bytes(static_cast<std::size_t>(count));
  return pack_bf16(site.stream, site.workspace, {.in = {values, {count}}, .out = {out, bytes}});
}

// `count` values as floats that bf16 has.
Result<void> round_to(const Site& site, const float* values, float* out, std::int64_t count) {
  constexpr std::int64_t kPiece = 2048;
  std::array<std::byte, ops::bf16_bytes(kPiece)> piece;
  for (std::int64_t at = 0; at < count; at += kPiece) {
    const std::int64_t size = std::min(kPiece, count - at);
    if (auto done = round_to(site, values + at, piece.data(), size); !done) return done;
    const ByteView in(piece.data(), ops::bf16_bytes(static_cast<std::size_t>(size)));
    auto done = unpack_bf16(site.stream, site.workspace, {.in = in, .out = {out + at, {size}}});
    if (!done) return done;
  }
  return {};
}

// A product of one shape, ready to run.
struct Product {
  Desc left, right, out, bias;
  dnnl::matmul run;
  Desc given;          // b as it comes
  dnnl::reorder pack;  // into `right`
  bool in_panels;      // `right` is what fill_panels() makes
};

struct Shape {
  ops::MatmulExtents extents;
  bool transpose_a = false, transpose_b = false, accumulate = false, bias = false, packed = false;

  std::array<std::int64_t, 4> key() const {
    return {extents.rows, extents.columns, extents.inner,
            transpose_a + 2 * transpose_b + 4 * accumulate + 8 * bias + 16 * packed};
  }
};

// Blocks that suit a product of many rows; products of fewer read the same ones.
constexpr std::int64_t kUsualRows = 256;

using SharedProduct = std::shared_ptr<const Product>;
SharedProduct product_of(const Shape& shape);

Product prepare(const Shape& shape) {
  const auto [M, N, K] = shape.extents;
  Product made;
  made.left = Desc({M, K}, Type::bf16, shape.transpose_a ? Layout::ba : Layout::ab);
  made.out = Desc({M, N}, Type::f32, Layout::ab);
  made.given = Desc({K, N}, Type::f32, shape.transpose_b ? Layout::ba : Layout::ab);
  if (shape.bias) made.bias = Desc({1, N}, Type::f32, Layout::ab);
  dnnl::primitive_attr attributes;
  if (shape.accumulate) {
    dnnl::post_ops after;
    after.append_sum(1.0f);
    attributes.set_post_ops(after);
  }
  const auto described = [&](const Desc& right) {
    const auto product = shape.bias ? dnnl::matmul::desc(made.left, right, made.bias, made.out)
                                    : dnnl::matmul::desc(made.left, right, made.out);
    return dnnl::matmul::primitive_desc(product, attributes, engine());
  };
  Desc right({K, N}, Type::bf16, Layout::any);
  const Shape usual{.extents = {kUsualRows, N, K}, .packed = true};
  if (shape.packed && shape.key() != usual.key()) right = product_of(usual)->right;
  auto description = described(right);
  if (description.weights_desc().get_size() > ops::packed_bytes(K, N))
    description = described(Desc({K, N}, Type::bf16, Layout::ab));
  made.right = description.weights_desc();
  made.run = dnnl::matmul(description);
  made.in_panels = made.right == Desc({K, N}, Type::bf16, Layout::BA16a64b2a);
  made.pack = dnnl::reorder({engine(), made.given, engine(), made.right});
  return made;
}

SharedProduct product_of(const Shape& shape) {
  constexpr std::size_t kMost = 256;
  thread_local std::map<std::array<std::int64_t, 4>, SharedProduct> known;
  if (auto found = known.find(shape.key()); found != known.end()) return found->second;
  auto made = std::make_shared<const Product>(prepare(shape));
  if (known.size() >= kMost) known.clear();
  return known[shape.key()] = std::move(made);
}

const dnnl::stream& own_stream() {
  thread_local const dnnl::stream stream(engine());
  return stream;
}

void convert(const Product& product, const float* from, std::byte* to) {
  auto given = memory_of(product.given, from), packed = memory_of(product.right, to);
  product.pack.execute(own_stream(), given, packed);
}

Result<void> run_with_instructions(const Site& site, const ops::MatmulArgs& args,
                                   const ops::MatmulExtents& extents) {
  const bool is_packed = !args.packed_b.empty();
  const Shape shape{.extents = extents,
                    .transpose_a = args.transpose_a,
                    .transpose_b = args.transpose_b && !is_packed,
                    .accumulate = args.accumulate,
                    .bias = static_cast<bool>(args.bias),
                    .packed = is_packed};
  const SharedProduct shared = product_of(shape);
  const Product& product = *shared;
  auto* left = site.workspace.take<std::byte>(product.left.get_size());
  auto* right = is_packed ? nullptr : site.workspace.take<std::byte>(product.right.get_size());
  if (!left || (!right && !is_packed)) return too_small();
  if (auto done = round_to(site, args.a.data, left, args.a.element_count()); !done) return done;
  if (!is_packed && product.in_panels)
    fill_panels(args.b.data, extents.inner, extents.columns, args.transpose_b, right);
  else if (!is_packed)
    convert(product, args.b.data, right);
  const void* ready = is_packed ? args.packed_b.data() : right;
  std::unordered_map<int, dnnl::memory> operands{
      {DNNL_ARG_SRC, memory_of(product.left, left)},
      {DNNL_ARG_WEIGHTS, memory_of(product.right, ready)},
      {DNNL_ARG_DST, memory_of(product.out, args.c.data)}};
  if (args.bias) operands.emplace(DNNL_ARG_BIAS, memory_of(product.bias, args.bias.data));
  product.run.execute(own_stream(), operands);
  return {};
}

// Some columns of b at a time, so that weights of any size need little memory.
Result<void> run_without(const Site& site, const ops::MatmulArgs& args,
                         const ops::MatmulExtents& extents) {
  const auto [M, N, K] = extents;
  const std::int64_t most = ops::product_panel(extents);
  auto* left = site.workspace.take<float>(static_cast<std::size_t>(M * K));
  auto* panel = site.workspace.take<float>(static_cast<std::size_t>(K * most));
  if (!left || !panel) return too_small();
  if (auto done = round_to(site, args.a.data, left, M * K); !done) return done;
  // `count` values of b from `at` on.
  const auto take = [&](std::int64_t at, float* out, std::int64_t count) {
    if (args.packed_b.empty()) return round_to(site, args.b.data + at, out, count);
    const ByteView in = args.packed_b.subspan(ops::bf16_bytes(static_cast<std::size_t>(at)),
                                              ops::bf16_bytes(static_cast<std::size_t>(count)));
    return unpack_bf16(site.stream, site.workspace, {.in = in, .out = {out, {count}}});
  };
  for (std::int64_t first = 0; first < N; first += most) {
    const std::int64_t columns = std::min(most, N - first);
    Result<void> done;
    if (args.transpose_b)  // (columns, K)
      done = take(first * K, panel, columns * K);
    else  // (K, columns)
      for (std::int64_t k = 0; done && k < K; ++k)
        done = take(k * N + first, panel + k * columns, columns);
    if (!done) return done;
    const dnnl_status_t status =
        dnnl_sgemm(args.transpose_a ? 'T' : 'N', args.transpose_b ? 'T' : 'N', M, columns, K, 1.0f,
                   left, args.transpose_a ? M : K, panel, args.transpose_b ? K : columns,
                   args.accumulate ? 1.0f : 0.0f, args.c.data + first, N);
    if (status != dnnl_success)
      return {ErrorCode::internal, "oneDNN's matrix product failed with status " +
                                       std::to_string(static_cast<int>(status))};
  }
  if (args.bias) add_row(args.bias, args.c);
  return {};
}

}  // namespace

Result<void> matmul_bf16(tensor::Stream& stream, tensor::Workspace& workspace,
                         const ops::MatmulArgs& args, const ops::MatmulExtents& extents) {
  const Site site{stream, workspace};
  tensor::Workspace::Scope scope(workspace);
  work_alone();
  if (!has_instructions()) return run_without(site, args, extents);
  try {
    return run_with_instructions(site, args, extents);
  } catch (const dnnl::error& failure) {
    return {ErrorCode::internal, std::string("oneDNN's product in bf16 failed: ") + failure.what()};
  }
}

// Where there are no instructions: rounded, in the order in which b lies.
Result<void> pack_product(tensor::Stream& stream, tensor::Workspace& workspace,
                          const ops::PackProductArgs& args) {
  const std::int64_t N = args.b.shape[args.transpose_b ? 0 : 1],
                     K = args.b.shape[args.transpose_b ? 1 : 0];
  GPUNODE_CHECK(args.out.size() == ops::packed_bytes(K, N), "pack_product: sizes differ");
  work_alone();
  if (!has_instructions()) {
    const std::int64_t count = args.b.element_count();
    const std::int64_t first = count * args.part / args.parts;
    return round_to({stream, workspace}, args.b.data + first, args.out.data() + 2 * first,
                    count * (args.part + 1) / args.parts - first);
  }
  try {
    const Shape shape{
        .extents = {kUsualRows, N, K}, .transpose_b = args.transpose_b, .packed = true};
    const SharedProduct product = product_of(shape);
    if (product->in_panels)
      fill_kept_panels(args.b.data, K, N, args.transpose_b, args.part, args.parts, args.out.data());
    else if (args.part == 0)  // all of it at once
      convert(*product, args.b.data, args.out.data());
    return {};
  } catch (const dnnl::error& failure) {
    return {ErrorCode::internal, std::string("oneDNN's packing failed: ") + failure.what()};
  }
}

}  // namespace gpunode::cpu
