// The last things that a member did for a job, and how long each took, for `job trace`. A fixed
// ring: recording takes one short lock and copies 48 bytes, nothing is allocated, the oldest spans
// are overwritten. Neighbouring spans of one kind, step and peer are merged, so that a hundred
// chunks in a row are one span that tells how many. Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

#include "runtime/base/clock.hpp"

namespace gpunode::telemetry {

enum class SpanKind : std::uint8_t {
  compute,      // slices on the device thread; amount: slices
  send,         // partial sums handed to the link; amount: bytes
  sum,          // chunks completed and their results sent; amount: bytes
  receive,      // results of others put in their place; amount: bytes
  gather,       // from the own last partial sum to the whole result (held)
  confirm,      // from held to the last member's DONE
  apply,        // the update of the state
  sync,         // the state is fetched from other members
  view_change,  // from the wish to the installed view; amount: the view's number
  stall,        // waited for a peer longer than is usual; amount: rank
  speculative,  // what follows from a part of the sum, done before the step is committed
  kCount
};
std::string_view to_string(SpanKind kind);

inline constexpr std::uint16_t kNobody = 0xffff;

struct Span {
  SpanKind kind = SpanKind::compute;
  std::uint16_t peer = kNobody;  // rank in the view
  std::uint32_t count = 1;       // things that were merged into it
  std::uint64_t step = 0;
  std::uint64_t amount = 0;
  Time begin{}, end{};
  bool operator==(const Span&) const = default;
};

class SpanRing {
 public:
  explicit SpanRing(std::size_t capacity = 8192);
  void add(const Span& span);
  // Those of this step and later ones, oldest first, at most `most` (the newest of them).
  std::vector<Span> from_step(std::uint64_t step, std::size_t most) const;

 private:
  static constexpr Duration kMergeWithin = std::chrono::microseconds(200);
  static constexpr std::size_t kMergeAmong = 6;  // last spans: sending, adding, copying take turns

  mutable std::mutex mutex_;
  std::vector<Span> spans_;
  std::size_t next_ = 0;  // place of the oldest once the ring is full; 0 before
  std::size_t capacity_;
};

}  // namespace gpunode::telemetry
