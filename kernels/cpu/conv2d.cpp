// Patches of a block of pixels are laid out as rows of a matrix (in x they are KH runs of KW*C
// elements each), then the block is a matrix product. A convolution by a single element with stride
// 1 needs no layout: x is that matrix.
#include "kernels/ops/conv2d.hpp"

#include <cstring>

#include "kernels/cpu/operations.hpp"

#define GPUNODE_ISA_BODY "kernels/cpu/detail/add_body.inc"
#include "kernels/cpu/detail/for_each_isa.inc"

namespace gpunode::cpu {
namespace {

struct Extents {
  std::int64_t samples, height, width, channels;  // of x
  std::int64_t out_height, out_width, out_channels;
  std::int64_t kernel_height, kernel_width, stride, padding;

  std::int64_t patch() const { return kernel_height * kernel_width * channels; }
  std::int64_t pixels() const { return samples * out_height * out_width; }
  bool is_plain() const {
    return kernel_height == 1 && kernel_width == 1 && stride == 1 && padding == 0;
  }
};

struct Geometry {
  std::int64_t stride, padding;
};

Extents extents_of(const tensor::Shape& x, const tensor::Shape& weight, const tensor::Shape& y,
                   Geometry geometry) {
  const auto [stride, padding] = geometry;
  const std::string text = "conv2d: " + x.text() + " by " + weight.text() + " -> " + y.text();
  GPUNODE_CHECK(x.rank() == 4 && weight.rank() == 4 && y.rank() == 4 && stride > 0 && padding >= 0,
                text);
  const Extents e{x[0],      x[1],      x[2],      x[3],   y[1],   y[2],
                  weight[0], weight[1], weight[2], stride, padding};
  const ops::WindowExtent down{e.height, e.kernel_height, stride, padding};
  const ops::WindowExtent across{e.width, e.kernel_width, stride, padding};
  GPUNODE_CHECK(weight[3] == e.channels && y[0] == e.samples && y[3] == e.out_channels &&
                    down.output() == e.out_height && across.output() == e.out_width,
                text);
  return e;
}

// One run of a patch: `count` elements of x from `from` on belong at `to` of the patch's row.
struct Run {
  std::int64_t from, to, count;
};

// Calls each(row of the block, run) for every part of these pixels' patches that lies inside x; and
// outside(row) before, for patches that do not lie inside as a whole.
template <class Each, class Outside>
void for_runs(const Extents& e, std::int64_t first, std::int64_t count, Each each,
              Outside outside) {
  for (std::int64_t row = 0; row < count; ++row) {
    const std::int64_t pixel = first + row;
    const std::int64_t across = pixel % e.out_width, down = pixel / e.out_width % e.out_height;
    const std::int64_t sample = pixel / (e.out_width * e.out_height);
    const std::int64_t top = down * e.stride - e.padding, left = across * e.stride - e.padding;
    const std::int64_t begin = std::max<std::int64_t>(0, -left);
    const std::int64_t end = std::min(e.kernel_width, e.width - left);
    const std::int64_t first_row = std::max<std::int64_t>(0, -top);
    const std::int64_t last_row = std::min(e.kernel_height, e.height - top);
    if (begin > 0 || end < e.kernel_width || first_row > 0 || last_row < e.kernel_height)
      outside(row);
    if (begin >= end) continue;
    for (std::int64_t u = first_row; u < last_row; ++u)
      each(row, Run{((sample * e.height + top + u) * e.width + left + begin) * e.channels,
                    (u * e.kernel_width + begin) * e.channels, (end - begin) * e.channels});
  }
}

void lay_out(const Extents& e, const float* x, std::int64_t first, std::int64_t count,
             float* patches) {
  const std::int64_t patch = e.patch();
  for_runs(
      e, first, count,
      [&](std::int64_t row, const Run& run) {
        std::memcpy(patches + row * patch + run.to, x + run.from,
                    static_cast<std::size_t>(run.count) * sizeof(float));
      },
      [&](std::int64_t row) { std::fill_n(patches + row * patch, patch, 0.0f); });
}

void add_back(const Extents& e, const float* patches, std::int64_t first, std::int64_t count,
              float* dx) {
  const auto add = GPUNODE_PICK(add);
  for_runs(
      e, first, count,
      [&](std::int64_t row, const Run& run) {
        float* place = dx + run.from;
        add(place, patches + row * e.patch() + run.to, place, static_cast<std::size_t>(run.count));
      },
      [](std::int64_t) {});
}

// Calls work(first pixel, pixels) for each block.
template <class Work>
Result<void> for_blocks(const Extents& e, Work work) {
  const std::int64_t block = ops::conv2d_block(e.patch());
  for (std::int64_t first = 0; first < e.pixels(); first += block)
    if (auto done = work(first, std::min(block, e.pixels() - first)); !done) return done;
  return {};
}

float* take_patches(tensor::Workspace& workspace, const Extents& e) {
  return workspace.take<float>(
      static_cast<std::size_t>(std::min(ops::conv2d_block(e.patch()), e.pixels()) * e.patch()));
}

Error too_small() {
  return {ErrorCode::out_of_memory, "conv2d: the workspace is too small for a block of patches"};
}

}  // namespace

Result<void> conv2d(tensor::Stream& stream, tensor::Workspace& workspace,
                    const ops::Conv2dArgs& args) {
  const Extents e =
      extents_of(args.x.shape, args.weight.shape, args.y.shape, {args.stride, args.padding});
  const std::int64_t patch = e.patch(), out = e.out_channels;
  const tensor::ConstTensor weight{args.weight.data, {out, patch}};
  if (e.is_plain())
    return matmul(stream, workspace,
                  {.a = {args.x.data, {e.pixels(), patch}},
                   .b = weight,
                   .c = {args.y.data, {e.pixels(), out}},
                   .transpose_b = true});
  tensor::Workspace::Scope scope(workspace);
  float* patches = take_patches(workspace, e);
  if (!patches) return too_small();
  return for_blocks(e, [&](std::int64_t first, std::int64_t count) {
    lay_out(e, args.x.data, first, count, patches);
    return matmul(stream, workspace,
                  {.a = {patches, {count, patch}},
                   .b = weight,
                   .c = {args.y.data + first * out, {count, out}},
                   .transpose_b = true});
  });
}

Result<void> conv2d_backward(tensor::Stream& stream, tensor::Workspace& workspace,
                             const ops::Conv2dBackwardArgs& args) {
  const Extents e =
      extents_of(args.x.shape, args.weight.shape, args.dy.shape, {args.stride, args.padding});
  GPUNODE_CHECK(args.dweight.element_count() == args.weight.element_count() &&
                    (!args.dx || args.dx.element_count() == args.x.element_count()),
                "conv2d_backward: sizes differ");
  const std::int64_t patch = e.patch(), out = e.out_channels;
  const bool plain = e.is_plain();
  tensor::Workspace::Scope scope(workspace);
  float* patches = plain ? nullptr : take_patches(workspace, e);
  if (!plain && !patches) return too_small();
  if (args.dx && !plain) std::fill_n(args.dx.data, args.dx.element_count(), 0.0f);
  return for_blocks(e, [&](std::int64_t first, std::int64_t count) -> Result<void> {
    const tensor::ConstTensor dy{args.dy.data + first * out, {count, out}};
    if (!plain) lay_out(e, args.x.data, first, count, patches);
    const float* rows = plain ? args.x.data + first * patch : patches;
    auto done = matmul(stream, workspace,
                       {.a = dy,
                        .b = {rows, {count, patch}},
                        .c = {args.dweight.data, {out, patch}},
                        .transpose_a = true,
                        .accumulate = first > 0});
    if (!done || !args.dx) return done;
    float* drows = plain ? args.dx.data + first * patch : patches;
    done = matmul(stream, workspace,
                  {.a = dy, .b = {args.weight.data, {out, patch}}, .c = {drows, {count, patch}}});
    if (done && !plain) add_back(e, patches, first, count, args.dx.data);
    return done;
  });
}

}  // namespace gpunode::cpu
