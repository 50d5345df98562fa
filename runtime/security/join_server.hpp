// A node's side of the join protocol, pure: greets callers, relays requests to the token's issuer,
// and as the issuer decides. It blocks on nothing but storing a token's use and an admission.
// Strangers cost it one bounded map entry each: a rate limit an address (a member that relays has one,
// too), at most 64 requests in progress, each answered within 8 s. Refusals of those that prove no token
// are counted in the audit log, not written one by one. Every frame is an exchange of its own (frame in, one frame
// or nothing out), as the join socket gives them. Owned by the control thread.
//
//   caller --hello--> Send(banner)          caller --request--> not mine: Relay
//   caller --request--> mine: checks token, DialBack to the advertised address, then Send(answer)
//   relay --request--> on_relayed: the same, answered with AnswerRelay; the relay dials back, as it
//                      alone sees where the caller comes from: DialWish, on_dial_wish, DialOutcome
//   anything else is garbage and gets no answer
#pragma once

#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/base/ip_address.hpp"
#include "runtime/security/audit_log.hpp"
#include "runtime/security/join_protocol.hpp"
#include "runtime/security/rate_limit.hpp"

namespace gpunode::security {

using JoinExchange = std::uint64_t;  // the owner's number for one frame that awaits an answer

class JoinServer {
 public:
  static constexpr std::size_t kMaxPending = 64;
  static constexpr int kJoinsAtOnce = 64;  // of new nodes by one token, and then one a second
  static constexpr Duration kDialBackTerm = std::chrono::seconds(5);
  static constexpr Duration kRelayTerm = std::chrono::seconds(8);  // the socket gives up after 10 s
  static constexpr std::chrono::seconds kBannerTerm{60};  // a request answers a banner not older
  static constexpr Duration kCountTerm = std::chrono::minutes(1);  // of refused strangers, audited

  struct Send {  // the one answer to an exchange
    JoinExchange exchange = 0;
    Bytes frame;
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
    bool admitted = false;  // who asked is a new member: no stranger's attempt
  };
  struct DialBack {  // try to connect to each; then on_dial_back
    std::uint64_t check = 0;
    std::vector<std::string> endpoints;  // none but those that dialable() gives
  };
  struct DialWish {  // to the relay `via`, which calls on_dial_wish
    NodeId via;
    std::uint64_t relay = 0;
    std::vector<std::string> endpoints;
  };
  struct DialOutcome {  // to `issuer`, which calls on_dial_outcome
    NodeId issuer;
    std::uint64_t relay = 0;
    bool reached = false;
    std::string seen_from;  // set where nothing was to be dialled
  };
  struct Admitted {  // tell the others
    Admission admission;
    LinkKey link_key;
    JoinRecord record;
    bool reachable = false;
  };
  using Action = std::variant<Send, Relay, AnswerRelay, DialBack, DialWish, DialOutcome, Admitted>;
  using Actions = std::vector<Action>;

  struct Seeds {
    std::vector<NodeId> nodes;
    Bytes records;  // the membership's own encoding
  };
  struct Parts {  // all outlive the server; audit may be null
    const Identity& identity;
    Admissions& admissions;
    TokenBook& tokens;
    AuditLog* audit = nullptr;
    std::string name;                          // of this node
    std::function<bool(const NodeId&)> is_up;  // whether a member can be reached now
    // Whom a new node is to contact first: this one, `via`, and others as far as there is room.
    std::function<Seeds(std::optional<NodeId> via, std::size_t most)> members;
    IpRanges dial_too = {};  // addresses that a dial-back may go to, beside the caller's own
    std::function<std::vector<std::string>()> own_addresses = {};  // of this machine; may be null
  };
  explicit JoinServer(Parts parts);

  // One frame from a caller at `address` (an IP address, without port).
  Actions on_frame(Time now, WallTime wall, JoinExchange exchange, std::string_view address,
                   ByteView frame);

  // As the issuer: a request that the member `via` passes on.
  Actions on_relayed(Time now, WallTime wall, const NodeId& via, std::uint64_t relay,
                     ByteView frame);
  // As the relay: the issuer's answer, or that the issuer cannot be reached any more.
  // Nothing: another member says so than was asked, or nobody was.
  Actions on_relay_answer(const NodeId& issuer, std::uint64_t relay, ByteView frame, bool admitted);
  Actions on_relay_failed(std::uint64_t relay);

  // As who dialled: which of DialBack's endpoints answered; empty = none.
  Actions on_dial_back(WallTime wall, std::uint64_t check, std::string_view reached);
  // As the relay: the issuer wants the caller dialled back.
  Actions on_dial_wish(Time now, const NodeId& issuer, std::uint64_t relay,
                       const std::vector<std::string>& endpoints);
  // As the issuer: what came of that.
  Actions on_dial_outcome(WallTime wall, const NodeId& via, std::uint64_t relay, bool reached,
                          std::string seen_from);

  Actions on_tick(Time now, WallTime wall);

  std::size_t pending() const { return relays_.size() + checks_.size() + wishes_.size(); }

 private:
  struct Origin {  // where an answer goes: to a caller, or through the relay `via`
    std::uint64_t number = 0;
    std::optional<NodeId> via;
    std::string address = {};  // of a caller
  };
  struct Relayed {
    JoinExchange exchange = 0;
    NodeId issuer;
    Time deadline{};
    std::string address;   // of the caller
    bool dialled = false;  // once is enough
  };
  struct Check {
    Origin origin;
    JoinRequest request;
    Time deadline{};
  };
  struct Wish {  // of an issuer, that this node dials
    NodeId issuer;
    std::uint64_t relay = 0;
    Time deadline{};
  };

  Nonce banner_nonce(WallTime wall) const;
  bool banner_is_fresh(const Nonce& nonce, WallTime wall) const;
  Actions on_hello(WallTime wall, JoinExchange exchange, ByteView frame);
  Actions on_request(Time now, WallTime wall, const Origin& origin, ByteView frame);
  Actions decide(Time now, WallTime wall, const Origin& origin, ByteView frame);
  Actions check_address(Time now, WallTime wall, const Origin& origin, JoinRequest request);
  std::vector<std::string> dialable(Time now, const std::vector<std::string>& endpoints,
                                    const std::string& address);
  Actions conclude(WallTime wall, std::uint64_t check, bool reached, const std::string& seen_from);
  Actions admit(WallTime wall, const Origin& origin, const JoinRequest& request, bool reachable,
                std::string remark);
  Bytes welcome(JoinAnswer reply, const Origin& origin, const JoinRequest& request) const;
  Result<Admission> admission_for(WallTime wall, const JoinRequest& request, bool& fresh);
  Actions refuse(WallTime wall, const Origin& origin, const JoinRequest& request,
                 JoinRefusal refusal, std::string detail);
  Actions refuse_stranger(const Origin& origin, const JoinRequest& request, JoinRefusal refusal,
                          std::string detail);
  void count_strangers(Time now, WallTime wall);
  Actions refuse_token(WallTime wall, const Origin& origin, const JoinRequest& request,
                       TokenVerdict verdict);
  Actions answer(const Origin& origin, Bytes frame, bool admitted = false) const;
  void give_back(std::string_view address, bool dialled);
  Actions refuse_in_clear(const Origin& origin, JoinRefusal refusal, std::string_view detail) const;
  std::string name_of(const NodeId& node) const;
  std::string unknown_token() const;
  void audit(WallTime wall, std::string_view event, std::vector<AuditField> fields);

  Parts parts_;
  RateLimit rate_;
  RateLimit relay_rate_{{.burst = 64, .per_second = 16}};  // of what a member passes on
  RateLimit token_rate_{{.burst = kJoinsAtOnce}};          // of new nodes, by token
  RateLimit again_rate_{{.burst = 4, .per_second = 0.1}};  // of who is a member, by node
  Secret<32> banner_key_;  // makes banner nonces recognisable without remembering them
  std::map<std::uint64_t, Relayed> relays_;
  std::map<std::uint64_t, Check> checks_;
  std::map<std::uint64_t, Wish> wishes_;
  std::uint64_t next_number_ = 1;
  std::uint64_t strangers_ = 0;  // refused without proof of a token since the last count
  Time next_count_{};
};

}  // namespace gpunode::security
