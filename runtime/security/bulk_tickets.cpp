#include "runtime/security/bulk_tickets.hpp"

namespace gpunode::security {

Result<std::string> BulkTickets::issue(const TicketOwner& owner, Time now) {
  std::string ticket = to_base64url(random_array<32>());
  std::lock_guard lock(mutex_);
  if (entries_.size() >= kLimit)
    std::erase_if(entries_, [&](const auto& item) { return now >= item.second.expires; });
  if (entries_.size() >= kLimit) {
    return {ErrorCode::resource_exhausted,
            "4096 bulk connections are being opened at once; the next try comes by itself"};
  }
  entries_[sha256(as_bytes(ticket))] = Entry{owner, now + kTerm};
  return ticket;
}

std::optional<TicketOwner> BulkTickets::redeem(std::string_view ticket, Time now) {
  Sha256 hash = sha256(as_bytes(ticket));
  std::lock_guard lock(mutex_);
  const auto entry = entries_.extract(hash);
  if (!entry || now >= entry.mapped().expires) return std::nullopt;
  return entry.mapped().owner;
}

void BulkTickets::forget(const NodeId& peer) {
  std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const auto& item) { return item.second.owner.peer == peer; });
}

}  // namespace gpunode::security
