#include "runtime/security/bulk_tickets.hpp"

namespace gpunode::security {

Result<std::string> BulkTickets::issue(const TicketOwner& owner, Time now, Duration term) {
  std::string ticket = to_base64url(random_array<32>());
  std::lock_guard lock(mutex_);
  if (entries_.size() >= kLimit) drop_expired(now);
  if (entries_.size() >= kLimit) {
    return {ErrorCode::resource_exhausted,
            "4096 bulk connections are being opened at once; the next try comes by itself"};
  }
  entries_[sha256(as_bytes(ticket))] = Entry{owner, now + term};
  return ticket;
}

std::optional<TicketOwner> BulkTickets::redeem(std::string_view ticket, Time now) {
  Sha256 hash = sha256(as_bytes(ticket));
  std::lock_guard lock(mutex_);
  auto found = entries_.find(hash);
  if (found == entries_.end()) return std::nullopt;
  Entry entry = found->second;
  entries_.erase(found);
  if (now >= entry.expires) return std::nullopt;
  return entry.owner;
}

void BulkTickets::forget(const NodeId& peer) {
  std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const auto& item) { return item.second.owner.peer == peer; });
}

std::size_t BulkTickets::size() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

void BulkTickets::drop_expired(Time now) {
  std::erase_if(entries_, [&](const auto& item) { return now >= item.second.expires; });
}

}  // namespace gpunode::security
