// How members are shown to people. A name is a label, the key is the identity: of two nodes with
// one name the later is shown as name~id. Pure; O(n log n).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/membership/member_record.hpp"

namespace gpunode::membership {

// The shown name of each member. Of several with one name the one with the smallest id keeps it
// bare ("later" must mean the same on every node, and arrival order does not); the others get ~
// and the first 8 digits of their id, or the whole id where even those digits agree. A member
// without a name is shown by the first 8 digits of its id.
std::map<NodeId, std::string> display_names(const std::vector<MemberRecord>& members);

}  // namespace gpunode::membership
