// Copies between the host's ordinary memory and a device's, through two pieces of page-locked memory
// that are used over and over: while the device copies the one, the host fills or empties the other,
// and no copy makes the driver find a place of its own. Where the host has the device's memory it is
// one plain copy. One thread and one stream at a time; holds two pieces at most, from the first copy
// on, however long a copy is. Costs a pass over the bytes by the host.
#pragma once

#include <array>

#include "kernels/ops/backend.hpp"
#include "kernels/tensor/buffer.hpp"

namespace gpunode::ops {

class Staging {
 public:
  // The backend outlives it, and it outlives the stream that it copies on.
  explicit Staging(Backend& backend);

  // Behind what is queued on the stream; `from` is the caller's again on return, though the device
  // may not have it yet. Fails with: out_of_memory, internal.
  Result<void> upload(tensor::Stream& stream, ByteView from, void* to);
  // Behind what is queued on the stream, which is waited for: `to` is complete on return. Fails
  // with: as above.
  Result<void> download(tensor::Stream& stream, const void* from, MutableByteView to);

 private:
  struct Piece {
    tensor::Buffer memory{};
    std::unique_ptr<tensor::Event> copied{};  // behind the newest copy to or from it
  };
  Result<Piece*> next_piece();  // which no copy uses

  Backend* backend_;
  std::size_t piece_bytes_;
  tensor::BufferPool pool_;
  std::array<Piece, 2> pieces_;
  std::size_t turn_ = 0;
};

}  // namespace gpunode::ops
