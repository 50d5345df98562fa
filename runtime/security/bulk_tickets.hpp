// One-time tickets: what a bulk connection begins with, agreed over the control channel, so that a
// socket belongs to a key before its first frame. A ticket crosses the wire in clear and therefore
// proves nothing but which key to try. Any thread: guarded by one mutex, held for a map look-up.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "runtime/base/clock.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/result.hpp"
#include "runtime/security/crypto.hpp"

namespace gpunode::security {

struct TicketOwner {
  NodeId peer;
  std::uint64_t session = 0;
};

class BulkTickets {
 public:
  static constexpr std::size_t kLimit = 4096;  // outstanding tickets
  static constexpr Duration kTerm = std::chrono::seconds(30);

  // A fresh ticket, 43 printable characters. Fails with resource_exhausted beyond kLimit.
  Result<std::string> issue(const TicketOwner& owner, Time now);

  // Whose ticket this is; it never works again. Nothing for a stranger's, a used or an old one.
  std::optional<TicketOwner> redeem(std::string_view ticket, Time now);

  // Drops what was issued for `peer`; used on revocation and when its control link breaks.
  void forget(const NodeId& peer);

 private:
  struct Entry {
    TicketOwner owner;
    Time expires;
  };

  std::mutex mutex_;
  std::map<Sha256, Entry> entries_;  // by hash, so that look-up time tells nothing of the ticket
};

}  // namespace gpunode::security
