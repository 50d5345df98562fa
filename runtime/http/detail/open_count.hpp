// How many connections are open, in all and of each address, and which address is to give one up where
// one more comes. Guarded by whoever owns it.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace gpunode::http::detail {

class OpenCount {
 public:
  OpenCount(std::size_t most, std::size_t most_of_address)
      : most_(most), most_of_address_(most_of_address) {}

  void add(const std::string& client);
  void remove(const std::string& client);
  std::size_t all() const { return all_; }
  // The address that is to give one up for one more of `client`; nothing: there is room.
  std::optional<std::string> crowded_for(const std::string& client) const;

 private:
  const std::size_t most_, most_of_address_;
  std::size_t all_ = 0;
  std::map<std::string, std::size_t> of_address_;
};

}  // namespace gpunode::http::detail
