// The joining side from a token to an admission: runs security's JoinClient against the join port
// of a member. Blocks; used once, while a node starts.
#pragma once

#include <string>
#include <vector>

#include "runtime/security/join_client.hpp"

namespace gpunode::node {

struct JoinOrder {
  std::string address;  // "host:port" as the person gave it
  std::string token;
  security::JoinRecord record;
};

// Fails with the failure that got furthest: cause and remedy in one text.
Result<security::JoinClient::Joined> join_cluster(const security::Identity& identity,
                                                  const JoinOrder& order, const Clock& clock);

}  // namespace gpunode::node
