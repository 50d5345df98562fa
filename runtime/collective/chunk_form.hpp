// ChunkForm: how the chunks of a sum travel, handed to each AllReduce of a job. There are two: the
// floats as they lie in memory, sent without a copy; or fewer bytes, packed by functions that come
// from kernels (wire_form.hpp). Then what a step's bytes lost may be added to those of the next
// step, so one form serves all steps of a member. Thread: the all-reduce's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "runtime/base/bytes.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/collective/shared_floats.hpp"
#include "runtime/collective/wire_form.hpp"

namespace gpunode::collective {

class ChunkForm {
 public:
  virtual ~ChunkForm() = default;

  // A step begins; one that was begun and not committed is void.
  virtual void on_begin(std::uint64_t element_count) = 0;
  // The step that was begun is committed: what it lost is carried over.
  virtual void on_commit() = 0;
  // Nothing is carried over, and no memory held for it.
  virtual void forget() = 0;
  // None of these elements will be packed here in this step: what was carried for them stays.
  virtual void keep(Elements part) = 0;

  // A chunk's bytes are its floats, and may be read to where they belong.
  virtual bool is_plain() const = 0;
  // Bytes of so many elements of a partial sum, or of the result.
  virtual std::size_t partial_bytes(std::uint64_t count) const = 0;
  virtual std::size_t result_bytes(std::uint64_t count) const = 0;

  // The bytes of that part of a partial sum. Asked for once a step, as what is lost is counted
  // then. `carries`: what was carried over is added; true for one sum of each part.
  virtual SharedBytes pack_partial(const SharedFloats& sum, Elements part, bool carries) = 0;
  // Any bytes of the right number, a stranger's too. Good until the next call with that index, and
  // as long as the bytes.
  virtual const float* unpack_partial(ByteView bytes, std::uint64_t count, std::size_t index) = 0;
  // `place`: that part of the sum, which becomes what others will unpack. Nothing if that is what
  // it is: its memory may be sent.
  virtual SharedBytes pack_result(std::span<float> place, Elements part) = 0;
  // The digest of the floats that are in `place` then. The bytes may lie there already.
  virtual Digest unpack_result(ByteView bytes, std::span<float> place) = 0;
  // Whether the bytes say what is in `place`.
  virtual bool repeats_result(ByteView bytes, std::span<const float> place) = 0;
};

// Null forms: floats as they lie in memory.
std::shared_ptr<ChunkForm> chunk_form_of(std::shared_ptr<const WireForms> forms);

}  // namespace gpunode::collective
