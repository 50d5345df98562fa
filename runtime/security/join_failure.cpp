#include "runtime/security/join_failure.hpp"

#include "runtime/base/check.hpp"

namespace gpunode::security {

namespace {

struct Row {
  JoinFailure failure;
  std::string_view word;
  ErrorCode code;
  std::string_view remedy;
};

constexpr Row kTable[] = {
    {JoinFailure::name_not_resolved, "name_not_resolved", ErrorCode::not_found,
     "Check the spelling and the DNS of this machine, or give an IP address."},
    {JoinFailure::port_shut, "port_shut", ErrorCode::unavailable,
     "Check that `gpunode up` runs there and that this is its join port (`gpunode nodes` on that "
     "machine shows it)."},
    {JoinFailure::no_answer, "no_answer", ErrorCode::timeout,
     "Check the address, and that no firewall drops TCP connections to this port."},
    {JoinFailure::not_a_gpunode, "not_a_gpunode", ErrorCode::protocol_mismatch,
     "Give the join port of a running gpunode, not its control or HTTP port nor another service."},
    {JoinFailure::other_cluster, "other_cluster", ErrorCode::invalid_argument,
     "Make the token on a node of the cluster that you want to join, or name a node of the token's "
     "cluster."},
    {JoinFailure::protocol_mismatch, "protocol_mismatch", ErrorCode::protocol_mismatch,
     "Install the same version of gpunode on both nodes (`gpunode version` prints it)."},
    {JoinFailure::clock_skew, "clock_skew", ErrorCode::invalid_argument,
     "Set the clock that is wrong, best by NTP (`timedatectl set-ntp true`), and join again."},
    {JoinFailure::wrong_token, "wrong_token", ErrorCode::unauthenticated,
     "Make a new token with `gpunode token create` and copy its whole line."},
    {JoinFailure::token_expired, "token_expired", ErrorCode::unauthenticated,
     "Make a new token with `gpunode token create`; --ttl makes it live longer."},
    {JoinFailure::token_used_up, "token_used_up", ErrorCode::unauthenticated,
     "Make a new token with `gpunode token create`; --uses lets more nodes join with one."},
    {JoinFailure::address_not_reachable, "address_not_reachable", ErrorCode::unavailable,
     "Give --advertise an address that the other nodes can connect to, open its port in the "
     "firewall, or leave the flag out to join as a node that only dials."},
    {JoinFailure::issuer_away, "issuer_away", ErrorCode::unavailable,
     "Make a token on any node that is up, or start the node that made this one."},
    {JoinFailure::too_many_joins, "too_many_joins", ErrorCode::resource_exhausted,
     "Wait a minute and join again."},
    {JoinFailure::connection_lost, "connection_lost", ErrorCode::peer_lost,
     "Join again with the same token: if it was counted, it was counted for this node."},
    {JoinFailure::refused, "refused", ErrorCode::permission_denied,
     "Look into the log of the node that made the token."},
};

constexpr auto kFailures = [] {
  std::array<JoinFailure, std::size(kTable)> all{};
  for (std::size_t index = 0; index < std::size(kTable); ++index)
    all[index] = kTable[index].failure;
  return all;
}();

const Row& row_of(JoinFailure failure) {
  for (const Row& row : kTable) {
    if (row.failure == failure) return row;
  }
  GPUNODE_CHECK(false, "a join failure without a row");
}

}  // namespace

std::span<const JoinFailure> all_join_failures() {
  return kFailures;
}
std::string_view to_string(JoinFailure failure) {
  return row_of(failure).word;
}
std::string_view remedy(JoinFailure failure) {
  return row_of(failure).remedy;
}
ErrorCode code_of(JoinFailure failure) {
  return row_of(failure).code;
}

std::string JoinReport::message() const {
  return detail + (detail.ends_with('.') ? " " : ". ") + std::string(remedy(failure));
}

}  // namespace gpunode::security
