#include "runtime/carrier/carrier_protocol.hpp"

#include <cstring>
#include <type_traits>

namespace gpunode::carrier {
namespace {

constexpr std::byte kDone{0}, kFailed{1};

template <class T>
void put(Bytes& to, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), bytes, bytes + sizeof value);
}

class Reader {
 public:
  explicit Reader(ByteView from) : rest_(from) {}
  template <class T>
  bool take(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (rest_.size() < sizeof value) return false;
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_ = rest_.subspan(sizeof value);
    return true;
  }
  // `count` values; as many must be there before any place is made for them.
  template <class T>
  bool take(std::vector<T>& values, std::uint64_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (count > rest_.size() / sizeof(T)) return false;
    values.resize(static_cast<std::size_t>(count));
    if (count > 0) std::memcpy(values.data(), rest_.data(), values.size() * sizeof(T));
    rest_ = rest_.subspan(values.size() * sizeof(T));
    return true;
  }
  ByteView rest() const { return rest_; }

 private:
  ByteView rest_;
};

}  // namespace

Bytes write(const OpenOrder& order) {
  Bytes bytes;
  put(bytes, order.protocol);
  const ByteView place = as_bytes(order.pci_bus_id);
  bytes.insert(bytes.end(), place.begin(), place.end());
  return bytes;
}

Bytes write(const JoinOrder& order) {
  Bytes bytes;
  put(bytes, order.rank);
  put(bytes, order.size);
  bytes.insert(bytes.end(), order.invite.begin(), order.invite.end());
  return bytes;
}

Bytes write(const RegionOrder& order) {
  Bytes bytes;
  put(bytes, order.bytes);
  put(bytes, order.handle);
  return bytes;
}

Bytes write(const MoveOrder& order) {
  Bytes bytes;
  put(bytes, std::uint64_t{order.sends.size()});
  put(bytes, std::uint64_t{order.receives.size()});
  for (const auto* spans : {&order.sends, &order.receives})
    for (const CarriedSpan& span : *spans) put(bytes, span);
  return bytes;
}

std::optional<OpenOrder> read_open(ByteView body) {
  OpenOrder order;
  Reader reader(body);
  if (!reader.take(order.protocol)) return std::nullopt;
  order.pci_bus_id = as_text(reader.rest());
  return order;
}

std::optional<JoinOrder> read_join(ByteView body) {
  JoinOrder order;
  Reader reader(body);
  if (!reader.take(order.rank) || !reader.take(order.size)) return std::nullopt;
  if (order.rank >= order.size || reader.rest().size() > kMaxInvite) return std::nullopt;
  order.invite = to_bytes(reader.rest());
  return order;
}

std::optional<RegionOrder> read_region(ByteView body) {
  RegionOrder order;
  Reader reader(body);
  if (!reader.take(order.bytes) || !reader.take(order.handle) || !reader.rest().empty())
    return std::nullopt;
  return order;
}

std::optional<MoveOrder> read_move(ByteView body) {
  MoveOrder order;
  Reader reader(body);
  std::uint64_t sends = 0, receives = 0;
  if (!reader.take(sends) || !reader.take(receives) || !reader.take(order.sends, sends) ||
      !reader.take(order.receives, receives) || !reader.rest().empty())
    return std::nullopt;
  return order;
}

Bytes write_answer(const Result<Bytes>& done) {
  const ByteView rest = done ? ByteView(*done) : as_bytes(done.error().detail);
  Bytes bytes{done ? kDone : kFailed};
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  return bytes;
}

Result<Bytes> read_answer(ByteView body) {
  if (body.empty() || (body[0] != kDone && body[0] != kFailed))
    return Error{ErrorCode::corrupted, "an answer that is none"};
  const ByteView rest = body.subspan(1);
  if (body[0] == kFailed) return Error{ErrorCode::unavailable, std::string(as_text(rest))};
  return to_bytes(rest);
}

}  // namespace gpunode::carrier
