// The joiner's side of the join protocol, pure: it is told what the socket saw and says what to do.
// It tries the endpoints in order and, when all fail, reports the failure that got furthest.
// Owned by the joining node's control thread.
//
//   state       event              next
//   idle        on_start           dialling: Dial
//   dialling    on_dialled         greeting: Ask(hello)
//               on_dial_failed     next endpoint: Dial, or Failed
//   greeting    on_answer(banner)  asking: Ask(request), or Failed
//               anything else      next endpoint: Dial, or Failed
//   asking      on_answer          Joined, or Failed
//               on_no_answer       Failed
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/security/join_failure.hpp"
#include "runtime/security/join_protocol.hpp"

namespace gpunode::security {

class JoinClient {
 public:
  static constexpr Duration kDialTerm = std::chrono::seconds(5);
  static constexpr Duration kBannerTerm = std::chrono::seconds(5);
  static constexpr Duration kAnswerTerm = std::chrono::seconds(12);
  static constexpr std::chrono::minutes kMaxSkew{5};

  struct Dial {
    std::string endpoint;  // forget any earlier connection, then dial this one
    Duration deadline{};
  };
  struct Ask {
    Bytes frame;
    Duration deadline{};
  };
  struct Joined {
    ClusterIdentity cluster;
    JoinAnswer answer;  // its admission and admissions are verified up to the founder
  };
  struct Failed {
    JoinReport report;
  };
  using Action = std::variant<Dial, Ask, Joined, Failed>;  // one at a time

  // Tries `endpoints` (what the person named), or the token's own when there are none. `identity`
  // must outlive it. Fails with invalid_argument when the record is out of bounds or no endpoint is
  // known.
  static Result<JoinClient> create(const Identity& identity, JoinToken token, JoinRecord record,
                                   std::vector<std::string> endpoints);

  Action on_start() { return dial(); }
  Action on_dialled();
  // not_found: the name does not resolve; unavailable: nothing listens; timeout: silence;
  // protocol_mismatch: something else listens there.
  Action on_dial_failed(const Error& error);
  Action on_answer(WallTime wall, ByteView frame);
  Action on_no_answer(const Error& error);  // timeout, or the connection broke

  bool finished() const { return state_ == State::finished; }
  const std::string& endpoint() const { return endpoints_[at_]; }

 private:
  enum class State { idle, dialling, greeting, asking, finished };
  JoinClient(const Identity& identity, JoinToken token, JoinRecord record,
             std::vector<std::string> endpoints);
  Action dial();
  Action next_endpoint(JoinFailure failure, std::string detail);
  Action fail(JoinFailure failure, std::string detail);
  Action greet(WallTime wall, ByteView frame);
  std::optional<JoinReport> objection(const JoinBanner& banner, WallTime wall) const;
  Action finish(ByteView frame);
  Action refused_by(const JoinAnswer& answer);

  const Identity* identity_;
  JoinToken token_;
  JoinRecord record_;
  std::vector<std::string> endpoints_;
  std::size_t at_ = 0;
  State state_ = State::idle;
  JoinRequest request_;
  std::optional<JoinReport> best_;  // of the endpoints tried so far
};

}  // namespace gpunode::security
