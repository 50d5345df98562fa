#include "kernels/ops/block_digest.hpp"

#include <algorithm>

#include "kernels/cpu/operations.hpp"
#include "runtime/base/digest.hpp"

namespace gpunode::cpu {

Result<void> block_digest(tensor::Stream&, tensor::Workspace&, const ops::BlockDigestArgs& args) {
  GPUNODE_CHECK(args.block_bytes > 0, "block_digest: blocks without bytes");
  std::uint64_t* out = args.out;
  ByteView rest = args.in;
  do {
    const ByteView block = rest.first(std::min(args.block_bytes, rest.size()));
    const Digest digest = digest_of(block);
    *out++ = digest.high;
    *out++ = digest.low;
    rest = rest.subspan(block.size());
  } while (!rest.empty());
  return {};
}

}  // namespace gpunode::cpu
