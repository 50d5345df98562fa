// Which of the machine's addresses a node tells others, while they come and go: a machine may boot
// before its network, or get another address from it. Pure: fed with a look at the addresses every
// few seconds. The address that is told stays as long as the machine has it, whatever others come;
// one that is gone makes way for the best there is, if two looks in a row say so; and with none left the
// last one is kept, as it is likely to come back and nobody could hear of another.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace gpunode::node {

class AddressWatch {
 public:
  // `told`: what others are told now.
  explicit AddressWatch(std::string told) : told_(std::move(told)) {}

  // `addresses`: those of the machine but loopback, the best first. Gives the address to be told
  // from now on, if it is another one.
  std::optional<std::string> on_look(const std::vector<std::string>& addresses);

 private:
  std::string told_, seen_;  // seen_: what the last look spoke for; empty: for no change
};

}  // namespace gpunode::node
