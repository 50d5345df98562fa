// Every way in which a join can fail, each with one sentence that names the cause and one that
// names what to try. The CLI prints both; scripts read the word. Plain table, tested whole.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runtime/base/error.hpp"

namespace gpunode::security {

enum class JoinFailure {
  name_not_resolved,
  port_shut,
  no_answer,
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
  refused
};

std::span<const JoinFailure> all_join_failures();
std::string_view to_string(JoinFailure failure);  // "port_shut"
std::string_view remedy(JoinFailure failure);     // what to try, one sentence
ErrorCode code_of(JoinFailure failure);

struct JoinReport {
  JoinFailure failure = JoinFailure::refused;
  std::string endpoint;  // at which it happened
  std::string detail;    // the cause, one sentence with names, addresses and times in it

  // "<detail>. <remedy>"
  std::string message() const;
  Error error() const { return {code_of(failure), message()}; }
};

}  // namespace gpunode::security
