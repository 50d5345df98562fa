#include "kernels/ops/rotary.hpp"

#include <cstddef>

#include "kernels/cpu/operations.hpp"

namespace gpunode::cpu {

struct RotaryRow {
  const float* angles;  // (half, 2)
  float* x;             // the first head
  std::size_t heads;    // consecutive, of 2 * half elements each
  std::size_t half;
  float direction;  // 1, or -1: the other way
};

}  // namespace gpunode::cpu

#define GPUNODE_ISA_BODY "kernels/cpu/detail/rotary_body.inc"
#include "kernels/cpu/detail/for_each_isa.inc"

namespace gpunode::cpu {

Result<void> rotary(tensor::Stream&, tensor::Workspace&, const ops::RotaryArgs& args) {
  const std::int64_t all = args.heads + 2 * args.key_heads;
  GPUNODE_CHECK(args.x.shape.rank() == 3 && args.angles.shape.rank() == 3 && args.heads > 0 &&
                    args.key_heads > 0 &&
                    args.x.shape[2] == all * args.angles.shape[1] * args.angles.shape[2],
                "rotary: " + args.angles.shape.text() + " does not fit " + args.x.shape.text());
  const std::int64_t positions = args.x.shape[1], width = args.x.shape[2];
  const std::int64_t head_size = width / all;
  const auto turn = GPUNODE_PICK(rotary);
  RotaryRow row{.angles = nullptr,
                .x = args.x.data,
                .heads = static_cast<std::size_t>(args.heads + args.key_heads),
                .half = static_cast<std::size_t>(head_size / 2),
                .direction = args.inverse ? -1.0f : 1.0f};
  for (std::int64_t place = 0; place < args.x.shape[0] * positions; ++place, row.x += width) {
    const std::int64_t position = args.positions ? args.positions.data[place] : place % positions;
    GPUNODE_CHECK(position >= 0 && position < args.angles.shape[0],
                  "rotary: more positions than the table has");
    row.angles = args.angles.data + position * head_size;
    turn(row);
  }
  return {};
}

}  // namespace gpunode::cpu
