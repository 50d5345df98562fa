// Members that do again and again what no honest node does: tell what nobody has signed, send what cannot be
// read, or more than may be. Refusing each such message costs about as much as sending it does, so they are
// put off: their links are closed, and opened no more for two seconds, and for twice as long each time that
// it comes to this again, up to a minute. Others of the cluster judge for themselves.
//   heard  --more offences than are tolerated-->  put off  --its pause is over-->  heard
// Any thread.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/security/rate_limit.hpp"

namespace gpunode::security {

class Offenders {
 public:
  // What an offence counts. One message too many may be an honest node's, and one that cannot be read that of
  // a newer program; whoever checks what it passes on forges nothing, and who is caught at it is asked no
  // more than once in a while. Frames out of session are under way by the thousand when a busy one breaks.
  static constexpr double kForged = 50, kMalformed = 1, kTooMany = 0.2, kOutOfSession = 0.02,
                          kOfLaterVersion = 0.002;

  explicit Offenders(const Clock& clock) : clock_(clock) {}

  void offended(const NodeId& by, double count);
  bool is_put_off(const NodeId& node) const;

  struct News {
    struct PutOff {
      NodeId node;
      Duration pause{};
    };
    std::vector<PutOff> put_off;
    std::vector<NodeId> heard_again;
  };
  // Since the last time that it was asked.
  News take_news();

 private:
  struct Offender {
    Time until{};  // it is put off
    Duration pause{};
    bool told = false, is_over = false;
  };
  static constexpr std::size_t kMany = 1024;

  const Clock& clock_;
  mutable std::mutex mutex_;
  RateLimit tolerated_{{.burst = 100, .per_second = 1}};
  std::map<NodeId, Offender> offenders_;
};

}  // namespace gpunode::security
