// Which rights each kind of message between nodes, each call and each command needs, and which of a
// peer's limits it counts against (peer_limits.hpp): the one table of it. Whether the sender has a
// part in the job that it speaks of, or owns it, is looked at where the job is
// (actors/job/job_rights.hpp, runtime/job).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "actors/node/peer_limits.hpp"
#include "runtime/base/result.hpp"
#include "runtime/security/rights.hpp"

namespace gpunode::node {

enum class Asked : std::uint8_t {
  topic,    // of a message between nodes; by the sender's rights
  call,     // of a name that a node publishes; by the caller's rights
  command,  // of this node's owner; by the rights of this node
};

struct NeededRights {
  Asked kind = Asked::command;
  std::string_view name;
  security::Rights any_of = 0;  // 0: none, every member may
  Load load = Load::none;       // of what others ask
};

std::span<const NeededRights> needed_rights();

// Fails with permission_denied, which names the roles of which one is needed. Calls of names that
// are not in the table are those of services, and need the right to call.
Result<void> may_ask(Asked kind, std::string_view name, security::Rights held);

// Which limit a peer's message of the topic, or its call of the name, counts against.
Load load_of(Asked kind, std::string_view name);

}  // namespace gpunode::node
