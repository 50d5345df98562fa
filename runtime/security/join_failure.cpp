#include "runtime/security/join_failure.hpp"

#include <iterator>

namespace gpunode::security {

namespace {

struct Row {
  std::string_view word;
  ErrorCode code;
  std::string_view remedy;
};

// In the order of JoinFailure.
constexpr Row kTable[] = {
    {"name_not_resolved", ErrorCode::not_found,
     "Check the spelling and the DNS of this machine, or give an IP address."},
    {"no_answer", ErrorCode::timeout,
     "Check the address, and that no firewall drops TCP connections to this port."},
    {"port_shut", ErrorCode::unavailable,
     "Check that `gpunode up` runs there and that this is its join port (`gpunode nodes` on that "
     "machine shows it)."},
    {"not_a_gpunode", ErrorCode::protocol_mismatch,
     "Give the join port of a running gpunode (`gpunode nodes` there shows it); its control port "
     "is "
     "another."},
    {"other_cluster", ErrorCode::invalid_argument,
     "Make the token on a node of the cluster that you want to join, or name a node of the token's "
     "cluster."},
    {"protocol_mismatch", ErrorCode::protocol_mismatch,
     "Install the same version of gpunode on both nodes (`gpunode version` prints it)."},
    {"clock_skew", ErrorCode::invalid_argument,
     "Set the clock that is wrong, best by NTP (`timedatectl set-ntp true`), and join again."},
    {"wrong_token", ErrorCode::unauthenticated,
     "Make a new token with `gpunode token create` and copy its whole line."},
    {"token_expired", ErrorCode::unauthenticated,
     "Make a new token with `gpunode token create`; --ttl makes it live longer."},
    {"token_used_up", ErrorCode::unauthenticated,
     "Make a new token with `gpunode token create`; --uses lets more nodes join with one."},
    {"address_not_reachable", ErrorCode::unavailable,
     "Give --advertise an address that the other nodes can connect to, open its port in the "
     "firewall, or leave the flag out to join as a node that only dials."},
    {"issuer_away", ErrorCode::unavailable,
     "Make a token on any node that is up, or start the node that made this one."},
    {"too_many_joins", ErrorCode::resource_exhausted, "Wait a minute and join again."},
    {"connection_lost", ErrorCode::peer_lost,
     "Join again with the same token: if it was counted, it was counted for this node."},
    {"put_out", ErrorCode::permission_denied,
     "Ask those who run the cluster why; a new state directory makes another node of this "
     "machine."},
    {"refused", ErrorCode::permission_denied, "Look into the log of the node that made the token."},
};

static_assert(std::size(kTable) == static_cast<std::size_t>(JoinFailure::refused) + 1);

const Row& row_of(JoinFailure failure) {
  return kTable[static_cast<std::size_t>(failure)];
}

}  // namespace

std::string_view to_string(JoinFailure failure) {
  return row_of(failure).word;
}

std::string JoinReport::message() const {
  return detail + (detail.ends_with('.') ? " " : ". ") + std::string(row_of(failure).remedy);
}

Error JoinReport::error() const {
  return {row_of(failure).code, message()};
}

}  // namespace gpunode::security
