#include "actors/node/data_offers.hpp"

#include <algorithm>
#include <cctype>

namespace gpunode::node {
namespace {

constexpr std::size_t kLongestName = 64;

Result<void> check_name(const std::string& name) {
  const auto is_good = [](unsigned char letter) {
    return std::isalnum(letter) || letter == '-' || letter == '_' || letter == '.';
  };
  if (!name.empty() && name.size() <= kLongestName && std::ranges::all_of(name, is_good)) return {};
  return {ErrorCode::invalid_argument,
          "a data set's name has 1 to " + std::to_string(kLongestName) +
              " letters, digits, '-', '_' and '.', and '" + name + "' is none"};
}

}  // namespace

Result<std::map<std::string, dataset::Offer>> parse_offers(
    const std::map<std::string, DataOffer>& data_sets) {
  std::map<std::string, dataset::Offer> offers;
  for (const auto& [name, told] : data_sets) {
    if (auto good = check_name(name); !good) return good.error();
    if (told.path.empty())
      return Error{ErrorCode::invalid_argument, "data set '" + name + "' wants a path"};
    dataset::Offer& offer = offers[name];
    offer.path = told.path;
    if (told.users == std::vector<std::string>{"any"}) continue;
    offer.users.emplace();
    for (const std::string& user : told.users) {
      const auto node = NodeId::parse(user);
      if (!node)
        return Error{ErrorCode::invalid_argument,
                     "data set '" + name + "' is for '" + user +
                         "': write \"any\" alone, or nodes by their ids of 64 digits, which "
                         "`gpunode nodes --json` shows; a name is no proof of who a node is"};
      offer.users->push_back(*node);
    }
  }
  return offers;
}

}  // namespace gpunode::node
