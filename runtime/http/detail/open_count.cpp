#include "runtime/http/detail/open_count.hpp"

#include <algorithm>

namespace gpunode::http::detail {

void OpenCount::add(const std::string& client) {
  ++all_;
  ++of_address_[client];
}

void OpenCount::remove(const std::string& client) {
  --all_;
  const auto found = of_address_.find(client);
  if (--found->second == 0) of_address_.erase(found);
}

std::optional<std::string> OpenCount::crowded_for(const std::string& client) const {
  const auto own = of_address_.find(client);
  if (own != of_address_.end() && own->second >= most_of_address_) return client;
  if (all_ < most_) return std::nullopt;
  const auto most =
      std::ranges::max_element(of_address_, {}, [](const auto& one) { return one.second; });
  return most == of_address_.end() ? client : most->first;
}

}  // namespace gpunode::http::detail
