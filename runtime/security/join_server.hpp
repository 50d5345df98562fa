// A node's side of the join protocol, pure: greets callers, relays requests to the token's issuer,
// and as the issuer decides. It never blocks on anything but storing a token's use. Strangers cost
// it one bounded map entry each: rate limit an address, at most 64 in progress, 10 s each, then
// the connection is dropped. Owned by the control thread.
//
//   caller --hello--> Send(banner)          caller --request--> not mine: Relay
//   caller --request--> mine: checks token, DialBack to the advertised address, then Send(answer)
//   relay --request--> on_relayed: the same, answered with AnswerRelay
#pragma once

#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/security/audit_log.hpp"
#include "runtime/security/join_protocol.hpp"
#include "runtime/security/rate_limit.hpp"

namespace gpunode::security {

using JoinConnection = std::uint64_t;  // the transport's number for one caller

class JoinServer {
 public:
  static constexpr std::size_t kMaxPending = 64;
  static constexpr Duration kPendingTerm = std::chrono::seconds(10);
  static constexpr Duration kRelayTerm = std::chrono::seconds(20);

  struct Send {
    JoinConnection connection = 0;
    Bytes frame;
  };
  struct Drop {  // close it and forget it
    JoinConnection connection = 0;
  };
  struct Relay {  // give `frame` to the node `issuer` over control, which calls on_relayed
    std::uint64_t relay = 0;
    NodeId issuer;
    Bytes frame;
  };
  struct AnswerRelay {  // give `frame` back to the node `via`, which calls on_relay_answer
    NodeId via;
    std::uint64_t relay = 0;
    Bytes frame;
  };
  struct DialBack {  // try to connect to each; then on_dial_back
    std::uint64_t check = 0;
    std::vector<std::string> endpoints;
  };
  struct Admitted {  // tell the others
    Admission admission;
    JoinRecord record;
    bool reachable = false;
  };
  using Action = std::variant<Send, Drop, Relay, AnswerRelay, DialBack, Admitted>;
  using Actions = std::vector<Action>;

  struct Parts {  // all outlive the server; audit may be null
    const Identity& identity;
    Admissions& admissions;
    TokenBook& tokens;
    AuditLog* audit = nullptr;
    std::string name;                          // of this node
    std::function<bool(const NodeId&)> is_up;  // whether a member can be reached now
    std::function<Bytes()> members;            // the member list for a new node
  };
  explicit JoinServer(Parts parts);

  // One frame from a caller at `address` (an IP address, without port).
  Actions on_frame(Time now, WallTime wall, JoinConnection connection, std::string_view address,
                   ByteView frame);
  void on_closed(JoinConnection connection);

  // As the issuer: a request that the member `via` passes on.
  Actions on_relayed(Time now, WallTime wall, const NodeId& via, std::uint64_t relay,
                     ByteView frame);
  // As the relay: the issuer's answer, or that the issuer cannot be reached any more.
  Actions on_relay_answer(Time now, std::uint64_t relay, ByteView frame);
  Actions on_relay_failed(Time now, std::uint64_t relay);

  // As the issuer: which of DialBack's endpoints answered; empty = none.
  Actions on_dial_back(Time now, WallTime wall, std::uint64_t check, std::string_view reached);

  Actions on_tick(Time now, WallTime wall);

  std::size_t pending() const { return callers_.size() + checks_.size(); }

 private:
  struct Caller {
    Time deadline{};
    Nonce nonce{};
    std::uint64_t relay = 0;  // a request of its is with the issuer
    bool asked = false;
  };
  struct Origin {  // where an answer goes
    JoinConnection connection = 0;
    std::optional<NodeId> via;
    std::uint64_t relay = 0;
  };
  struct Check {
    Origin origin;
    JoinRequest request;
    Time deadline{};
  };

  Actions on_hello(Time now, WallTime wall, JoinConnection connection, ByteView frame);
  Actions on_request(Time now, WallTime wall, JoinConnection connection, ByteView frame);
  Actions decide(Time now, WallTime wall, const Origin& origin, const Nonce* banner_nonce,
                 ByteView frame);
  Actions admit(WallTime wall, const Origin& origin, const JoinRequest& request, bool reachable);
  Actions refuse(WallTime wall, const Origin& origin, const JoinRequest& request,
                 JoinRefusal refusal, std::string detail);
  Actions answer(const Origin& origin, Bytes frame);
  Actions close_with(JoinConnection connection, Bytes frame);
  void audit(WallTime wall, std::string_view event, std::vector<AuditField> fields);

  Parts parts_;
  RateLimit rate_;
  std::unordered_map<JoinConnection, Caller> callers_;
  std::map<std::uint64_t, JoinConnection> relays_;
  std::map<std::uint64_t, Check> checks_;
  std::uint64_t next_number_ = 1;
};

}  // namespace gpunode::security
