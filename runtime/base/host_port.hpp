// Where a service listens, as a person or an endpoint writes it.
#pragma once

#include <cstdint>
#include <string>

namespace gpunode {

struct HostPort {
  std::string host;  // without brackets
  std::uint16_t port = 0;
};

}  // namespace gpunode
