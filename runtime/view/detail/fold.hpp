// Views, and what is said of them, as the bytes that signatures are made over.
#pragma once

#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/view/view.hpp"

namespace gpunode::view::detail {

// Values as bytes in one fixed order (all our machines are little-endian).
class Fold {
 public:
  template <class T>
  void value(const T& value) {
    static_assert(std::is_integral_v<T>);
    add({reinterpret_cast<const std::byte*>(&value), sizeof value});
  }
  void value(const Digest& digest) {
    value(digest.high);
    value(digest.low);
  }
  void value(const NodeId& node) { add(node.value); }
  void value(const HistoryId& history) {
    value(history.turn);
    value(history.mark);
  }
  void value(const Turn& turn) {
    value(turn.view_id);
    value(turn.base_step);
    value(turn.mark);
    value(static_cast<std::uint8_t>(turn.kind));
  }
  void value(const Member& member) {
    value(member.node);
    value(member.boot);
  }
  void value(const Ballot& ballot) {
    value(ballot.round);
    value(ballot.proposer);
  }
  void value(const CheckpointName& name) {
    value(name.history);
    value(name.step);
  }
  void value(const Floor& floor) {
    value(floor.name);
    list(floor.holders);
  }
  void value(const std::optional<SignedOrder>& order) {
    value(static_cast<std::uint8_t>(order.has_value()));
    if (!order) return;
    value(order->job);
    value(static_cast<std::uint8_t>(order->kind));
    value(order->step);
    value(static_cast<std::uint8_t>(order->anew));
    value(order->by);
    value(order->issued);
    value(order->expires);
    add(order->signature);
  }
  template <class List>
  void list(const List& values) {
    value(static_cast<std::uint64_t>(values.size()));
    for (const auto& one : values) value(one);
  }
  void add(ByteView more) { bytes_.insert(bytes_.end(), more.begin(), more.end()); }
  Bytes result() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

}  // namespace gpunode::view::detail
