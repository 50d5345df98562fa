#include "runtime/membership/member_names.hpp"

#include <algorithm>

namespace gpunode::membership {

std::map<NodeId, std::string> display_names(const std::vector<MemberRecord>& members) {
  std::map<std::string, std::vector<NodeId>> by_name;
  for (const MemberRecord& record : members)
    by_name[record.name.empty() ? record.id.short_text() : record.name].push_back(record.id);
  std::map<NodeId, std::string> shown;
  for (auto& [name, of_name] : by_name) {
    std::vector<NodeId>& ids = of_name;  // clang 14 captures no binding
    std::sort(ids.begin(), ids.end());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const bool ambiguous = std::count_if(ids.begin(), ids.end(), [&](const NodeId& other) {
                               return other.short_text() == ids[i].short_text();
                             }) > 1;
      shown[ids[i]] =
          i == 0 ? name : name + "~" + (ambiguous ? ids[i].text() : ids[i].short_text());
    }
  }
  return shown;
}

}  // namespace gpunode::membership
