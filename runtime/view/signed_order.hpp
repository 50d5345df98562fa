// What a person orders of a job, under the signature of the node at which it was ordered, so that it
// can be handed on: whoever carries it out, or tells others that it was carried out, shows it. A
// promise carries the order that its node was given, and a view the last one that was carried out.
// Plain value; wire form in schemas/order.fbs.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "runtime/base/bytes.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::view {

enum class OrderKind : std::uint8_t { stop = 1, resume, resume_from, recover, remove };

struct SignedOrder {
  JobId job;
  OrderKind kind = OrderKind::stop;
  std::uint64_t step = 0;   // of resume_from
  bool anew = false;        // of recover
  NodeId by = {};           // the node at which it was ordered
  std::int64_t issued = 0;  // microseconds since 1970, by its clock; of two orders the later counts
  std::int64_t expires = 0;
  std::array<std::byte, 64> signature{};

  bool operator==(const SignedOrder&) const = default;
  Bytes signed_bytes() const;
};
inline constexpr std::string_view kOrderPurpose = "job order 1";

// Of two orders about one job the one that counts. What a view has carried out is not later than
// itself, so nobody has it carried out again.
bool is_later(const SignedOrder& order, const std::optional<SignedOrder>& than);

enum class OrderUse : std::uint8_t {
  first,  // nobody has acted on it yet: it must not have expired
  agreed  // others have
};
// Whether it is signed by who may give it. Fails with permission_denied.
using MayOrder = std::function<Result<void>(const SignedOrder& order, OrderUse use)>;

Bytes encode(const SignedOrder& order);
// Checks form, not the signature. Fails with corrupted.
Result<SignedOrder> decode_order(ByteView bytes);

}  // namespace gpunode::view
