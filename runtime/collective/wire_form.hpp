// How the floats of a chunk travel. Exact mode has no form: the chunk's own memory is sent. Other
// modes hand in functions from kernels/ops that turn floats into fewer bytes and back; nothing here
// knows what they do. All members get identical floats all the same: the owner of a chunk takes its
// own sum back from the bytes that it sends.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "runtime/base/bytes.hpp"

namespace gpunode::collective {

// What encoding adds and what it leaves behind; each of a chunk's floats.
struct Feedback {
  std::span<const float> carried;  // added before encoding; empty: nothing
  std::span<float> lost;           // what does not arrive is added, where it is finite
  std::span<float> arrives;        // what decoding gives; empty: nobody asks; may be `in` itself
};

struct WireForm {
  // Bytes of `count` floats; the same for equal counts.
  std::function<std::size_t(std::size_t count)> bytes;
  // `out` has bytes(in.size()) bytes. Equal floats give equal bytes.
  std::function<void(std::span<const float> in, MutableByteView out)> encode;
  // Takes any bytes of the right number, a stranger's too.
  std::function<void(ByteView in, std::span<float> out)> decode;
  // All of it in one pass, where there is a function for that; else the exchange puts it together.
  std::function<void(std::span<const float> in, const Feedback&, MutableByteView out)>
      encode_carrying;
};

// Partial sums and results may travel differently.
struct WireForms {
  WireForm partial, result;
  bool feedback = false;  // what a step loses is added to the next one: see ErrorFeedback
};

// What a member's bytes of the last step lost on the way, to be added to its next ones. For a chunk
// of another owner that is the loss of its partial sums, for a chunk of its own the loss of the
// result. One vector a member; a step writes the next one, which counts once the step is committed.
// A view change forgets it, as chunks may then have other owners. Cost: two gradients.
class ErrorFeedback {
 public:
  // Of the step before; empty: nothing.
  std::span<const float> carried() const { return carried_; }
  // What the step under way loses; element_count floats after on_begin.
  std::span<float> lost() { return lost_; }
  void on_begin(std::size_t element_count) { lost_.assign(element_count, 0.0f); }
  void on_commit() { carried_.swap(lost_); }
  void forget() { *this = {}; }

 private:
  std::vector<float> carried_, lost_;
};

}  // namespace gpunode::collective
