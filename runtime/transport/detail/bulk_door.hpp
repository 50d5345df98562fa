// The listening end of the bulk lane: hands on a connection once it has shown a ticket that was
// given out, and bounds those that have not (address_quota.hpp). A ticket only selects the keys to try; that its bearer
// has them is shown by the first message. Runs on the lane's thread.
//
// A connection begins with 64 bytes: "GPBT", version 2, ticket length 2, ticket 56; little-endian.
#pragma once

#include <array>
#include <map>

#include "runtime/security/address_quota.hpp"
#include "runtime/security/bulk_tickets.hpp"
#include "runtime/security/crypto.hpp"
#include "runtime/transport/detail/acceptor.hpp"

namespace gpunode::transport::detail {

class BulkDoor {
 public:
  // A connection, and the peer and session that its ticket was given out for.
  using Admit = std::function<void(SharedDescriptor, const security::TicketOwner&)>;
  BulkDoor(Reactor& reactor, IpRanges allowed, Admit admit)
      : reactor_(reactor), allowed_(std::move(allowed)), admit_(std::move(admit)) {}

  // Before start(), which is before the reactor's.
  Result<void> listen(const std::vector<std::string>& endpoints);
  const std::vector<std::string>& endpoints() const { return endpoints_; }
  void start();
  void close();
  // Knocks with a ticket that nobody gave out. Fails with internal unless it is refused. Blocks.
  Result<void> test() const;

  Result<std::string> give_ticket(const security::TicketOwner& owner) {
    return tickets_.issue(owner, reactor_.now());
  }
  void forget(const NodeId& peer) { tickets_.forget(peer); }
  // Connections that went without a good ticket. Any thread.
  std::uint64_t refused_count() const { return refused_; }

  // The dialling end: shows the ticket. False: it is none, or the connection took less than all.
  static bool show_ticket(int fd, const std::string& ticket);

 private:
  struct TicketFrame {
    char magic[4] = {'G', 'P', 'B', 'T'};
    std::uint16_t version = 1;
    std::uint16_t length = 0;
    char ticket[56] = {};
  };
  static_assert(sizeof(TicketFrame) == 64);
  // A connection that has not shown a ticket yet.
  struct Knock {
    SharedDescriptor fd;
    std::uint64_t watch = 0;
    std::array<std::byte, sizeof(TicketFrame)> shown{};
    std::size_t filled = 0;
  };
  void take_knock(int fd, const IpAddress& from);
  void service_knock(std::uint64_t number);
  void judge(std::uint64_t number);
  void drop_knock(std::uint64_t number);

  Reactor& reactor_;
  const IpRanges allowed_;
  const Admit admit_;
  security::BulkTickets tickets_;
  std::vector<std::string> endpoints_;
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
  std::string system_pacing_;  // TCP's congestion control as the system has it
  std::map<std::uint64_t, Knock> knocks_;
  security::AddressQuota quota_{{}, security::random_nonce()};  // of knocks
  std::uint64_t next_knock_ = 1;
  std::atomic<std::uint64_t> refused_{0};
};

}  // namespace gpunode::transport::detail
