// How a process that has a token is let in: the joining side of runtime/security's protocol, over the join
// port of a member. Blocks; nothing of it is an actor.
#pragma once

#include <string>

#include "runtime/base/clock.hpp"
#include "runtime/security/join_client.hpp"

namespace gpunode::node {

// One attempt after the other as long as there are too many from this address at once, for five minutes.
// Fails with the failure that got furthest: cause and remedy in one text.
Result<security::JoinClient::Joined> join_when_let(const security::Identity& identity,
                                                   const std::string& token,
                                                   const security::JoinRecord& record,
                                                   const std::string& endpoint, const Clock& clock);

}  // namespace gpunode::node
