// SignedOrder to and from its bytes (schemas/order.fbs).
#include <algorithm>
#include <tuple>

#include "runtime/base/aligned_copy.hpp"
#include "runtime/view/signed_order.hpp"
#include "schemas/order_generated.h"

namespace gpunode::view {

namespace wire = gpunode::wire::order;

namespace {

constexpr std::size_t kMaxBytes = 512;

Bytes encode_with(const SignedOrder& order, ByteView signature) {
  flatbuffers::FlatBufferBuilder builder(256);
  const auto write = [&](ByteView bytes) {
    return builder.CreateVector(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  };
  const auto by = write(order.by.value), signed_by = write(signature);
  builder.Finish(wire::CreateOrder(builder, order.job.high, order.job.low,
                                   static_cast<std::uint8_t>(order.kind), order.step, order.anew,
                                   by, order.issued, order.expires, signed_by),
                 wire::OrderIdentifier());
  return finished_bytes(builder);
}

ByteView bytes_of(const flatbuffers::Vector<std::uint8_t>* bytes) {
  if (!bytes) return {};
  return {reinterpret_cast<const std::byte*>(bytes->data()), bytes->size()};
}

}  // namespace

bool is_later(const SignedOrder& order, const std::optional<SignedOrder>& than) {
  return !than || std::tie(order.issued, order.by, order.signature) >
                      std::tie(than->issued, than->by, than->signature);
}

Bytes SignedOrder::signed_bytes() const {
  return encode_with(*this, {});
}

Bytes encode(const SignedOrder& order) {
  return encode_with(order, order.signature);
}

Result<SignedOrder> decode_order(ByteView bytes) {
  const Error corrupted{ErrorCode::corrupted, "not an order about a job"};
  if (bytes.size() > kMaxBytes || bytes.size() < 8) return corrupted;
  AlignedCopy copy(bytes);
  flatbuffers::Verifier verifier(copy.data(), copy.size(), 4, 8);
  if (!wire::VerifyOrderBuffer(verifier)) return corrupted;
  const wire::Order* in = wire::GetOrder(copy.data());
  const auto by = NodeId::from(bytes_of(in->by()));
  const ByteView signature = bytes_of(in->signature());
  SignedOrder order{{in->job_high(), in->job_low()},
                    static_cast<OrderKind>(in->kind()),
                    in->step(),
                    in->anew(),
                    by.value_or(NodeId{}),
                    in->issued(),
                    in->expires(),
                    {}};
  const bool known = order.kind >= OrderKind::stop && order.kind <= OrderKind::remove;
  if (!by || !known || signature.size() != order.signature.size()) return corrupted;
  std::ranges::copy(signature, order.signature.begin());
  return order;
}

}  // namespace gpunode::view
