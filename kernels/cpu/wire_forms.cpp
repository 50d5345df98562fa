#include "kernels/ops/wire_forms.hpp"

#include <array>
#include <limits>

#include "kernels/cpu/operations.hpp"

namespace gpunode::cpu {
using ops::kInt8Block;
}

#define GPUNODE_ISA_BODY "kernels/cpu/detail/wire_forms_body.inc"
#include "kernels/cpu/detail/for_each_isa.inc"

namespace gpunode::cpu {
namespace {

// The upper 16 bits of a magnitude; larger for infinities and NaN than for any number.
std::uint32_t rank_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return (bits & 0x7fffffffu) >> 15;
}

}  // namespace

Result<void> pack_bf16(tensor::Stream&, tensor::Workspace&, const ops::PackArgs& args) {
  const auto count = static_cast<std::size_t>(args.in.element_count());
  GPUNODE_CHECK(args.out.size() == ops::bf16_bytes(count), "pack_bf16: sizes differ");
  GPUNODE_PICK(pack_bf16)(args.in.data, args.out.data(), count);
  return {};
}

Result<void> unpack_bf16(tensor::Stream&, tensor::Workspace&, const ops::UnpackArgs& args) {
  const auto count = static_cast<std::size_t>(args.out.element_count());
  GPUNODE_CHECK(args.in.size() == ops::bf16_bytes(count), "unpack_bf16: sizes differ");
  GPUNODE_PICK(unpack_bf16)(args.in.data(), args.out.data, count);
  return {};
}

Result<void> pack_int8(tensor::Stream&, tensor::Workspace&, const ops::PackArgs& args) {
  const auto count = static_cast<std::size_t>(args.in.element_count());
  GPUNODE_CHECK(args.out.size() == ops::int8_bytes(count), "pack_int8: sizes differ");
  GPUNODE_PICK(pack_int8)(args.in.data, args.out.data(), count);
  return {};
}

Result<void> pack_int8_carrying(tensor::Stream&, tensor::Workspace&,
                                const ops::PackCarryingArgs& args) {
  const auto count = static_cast<std::size_t>(args.in.element_count());
  GPUNODE_CHECK(args.out.size() == ops::int8_bytes(count), "pack_int8_carrying: sizes differ");
  GPUNODE_PICK(pack_int8_carrying)
  (args.in.data, args.carried, args.lost, args.arrives, args.out.data(), count);
  return {};
}

Result<void> unpack_int8(tensor::Stream&, tensor::Workspace&, const ops::UnpackArgs& args) {
  const auto count = static_cast<std::size_t>(args.out.element_count());
  GPUNODE_CHECK(args.in.size() == ops::int8_bytes(count), "unpack_int8: sizes differ");
  GPUNODE_PICK(unpack_int8)(args.in.data(), args.out.data, count);
  return {};
}

// Counts magnitudes by their upper bits, then takes what lies above the bucket that the last kept
// value falls into, and of that bucket the first.
Result<void> pack_top(tensor::Stream&, tensor::Workspace&, const ops::PackArgs& args) {
  const auto count = static_cast<std::size_t>(args.in.element_count());
  std::size_t kept = args.out.size() / ops::top_bytes(1);
  GPUNODE_CHECK(args.out.size() == ops::top_bytes(kept) && kept <= count, "pack_top: sizes differ");
  std::vector<std::uint32_t> counts(1u << 16);
  for (std::size_t i = 0; i < count; ++i) ++counts[rank_of(args.in.data[i])];
  std::uint32_t border = 0xffff;
  std::size_t above = 0;
  for (; border > 0 && above + counts[border] < kept; --border) above += counts[border];
  std::size_t of_border = kept - above;
  std::byte* out = args.out.data();
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t rank = rank_of(args.in.data[i]);
    if (rank < border || (rank == border && of_border == 0)) continue;
    if (rank == border) --of_border;
    const auto place = static_cast<std::uint32_t>(i);
    std::memcpy(out, &place, 4);
    std::memcpy(out + 4, args.in.data + i, 4);
    out += ops::top_bytes(1);
  }
  return {};
}

Result<void> unpack_top(tensor::Stream&, tensor::Workspace&, const ops::UnpackArgs& args) {
  const auto count = static_cast<std::size_t>(args.out.element_count());
  GPUNODE_CHECK(args.in.size() % ops::top_bytes(1) == 0, "unpack_top: half a pair");
  std::fill_n(args.out.data, count, 0.0f);
  for (std::size_t at = 0; at < args.in.size(); at += ops::top_bytes(1)) {
    std::uint32_t place;
    std::memcpy(&place, args.in.data() + at, 4);
    if (place < count) std::memcpy(args.out.data + place, args.in.data() + at + 4, 4);
  }
  return {};
}

}  // namespace gpunode::cpu
