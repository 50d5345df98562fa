// The joiner's side of the join protocol, pure: it is told what the socket saw and says what to do.
// It tries the endpoints in order and, when all fail, reports the failure that got furthest.
// Owned by the joining node's control thread.
//
//   state       event                          next
//   idle        on_start                       connecting: Connect
//   connecting  on_connected                   greeting: Send(hello)
//               on_name_not_resolved, on_refused, 5 s   next endpoint, or Failed
//   greeting    banner                         asking: Send(request)
//               anything else, 5 s             next endpoint, or Failed (not_a_gpunode, ...)
//   asking      answer                         Joined, or Failed
//               on_disconnected, 25 s          Failed
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
  static constexpr Duration kConnectTerm = std::chrono::seconds(5);
  static constexpr Duration kBannerTerm = std::chrono::seconds(5);
  static constexpr Duration kAnswerTerm = std::chrono::seconds(25);
  static constexpr std::chrono::minutes kMaxSkew{5};

  struct Connect {
    std::string endpoint;  // close any earlier connection, then dial this one
  };
  struct Send {
    Bytes frame;
  };
  struct Joined {
    ClusterIdentity cluster;
    JoinAnswer answer;  // its admission and admissions are verified up to the founder
  };
  struct Failed {
    JoinReport report;
  };
  using Action = std::variant<Connect, Send, Joined, Failed>;
  using Actions = std::vector<Action>;

  // Tries `endpoints` (what the person named) first, then the token's own. `identity` must outlive
  // it. Fails with invalid_argument when the record is out of bounds or no endpoint is known.
  static Result<JoinClient> create(const Identity& identity, JoinToken token, JoinRecord record,
                                   std::vector<std::string> endpoints);

  Actions on_start(Time now);
  Actions on_name_not_resolved(Time now, std::string_view why);
  Actions on_refused(Time now);  // the connection was refused
  Actions on_connected(Time now);
  Actions on_disconnected(Time now);
  Actions on_frame(Time now, WallTime wall, ByteView frame);
  Actions on_tick(Time now);  // call at least every 100 ms

  bool finished() const { return state_ == State::finished; }
  const std::string& endpoint() const { return endpoints_[at_]; }

 private:
  enum class State { idle, connecting, greeting, asking, finished };
  JoinClient(const Identity& identity, JoinToken token, JoinRecord record,
             std::vector<std::string> endpoints);
  Actions dial(Time now);
  Actions next_endpoint(Time now, JoinFailure failure, std::string detail);
  Actions fail(JoinFailure failure, std::string detail);
  Actions on_banner(Time now, WallTime wall, ByteView frame);
  Actions on_answer(ByteView frame);
  Actions refused_by(const JoinAnswer& answer);

  const Identity* identity_;
  JoinToken token_;
  JoinRecord record_;
  std::vector<std::string> endpoints_;
  std::size_t at_ = 0;
  State state_ = State::idle;
  Time deadline_{};
  JoinBanner banner_;
  JoinRequest request_;
  std::optional<JoinReport> best_;  // of the endpoints tried so far
};

}  // namespace gpunode::security
