// Every way in which a join can fail, each with one sentence that names the cause and one that
// names what to try. The CLI prints both. Plain table, tested whole.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/error.hpp"

namespace gpunode::security {

// The first five in the order of how far an attempt got; the others got as far as the fifth.
enum class JoinFailure {
  name_not_resolved,
  no_answer,
  port_shut,
  not_a_gpunode,
  other_cluster,
  protocol_mismatch,
  clock_skew,
  wrong_token,
  token_expired,
  token_used_up,
  address_not_reachable,
  issuer_away,
  too_many_joins,
  connection_lost,
  put_out,
  refused
};

std::string_view to_string(JoinFailure failure);  // "port_shut"

struct JoinReport {
  JoinFailure failure = JoinFailure::refused;
  std::string endpoint;  // at which it happened
  std::string detail;    // the cause, one sentence with names, addresses and times in it

  // "<detail>. <what to try>"
  std::string message() const;
  Error error() const;
};

}  // namespace gpunode::security
