// The outside things of a node that tests replace by their twins: files, clocks, the link. What is
// null here is the real one. Not part of the embedder's face.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "actors/node/node.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/storage/file_system.hpp"
#include "runtime/transport/link.hpp"

namespace gpunode::compute {
class DeviceRoster;
}

namespace gpunode::node {

struct NodeParts {
  storage::FileSystem* files = nullptr;  // outlives the node
  const Clock* clock = nullptr;          // outlives the node
  std::string version;                   // empty: this program's
  // Opens the link of this node; the endpoints of a twin are empty.
  std::function<std::shared_ptr<transport::Link>(const NodeId&, Boot, transport::LinkEvents)>
      open_link;
};

// Adds devices to those of the machine, before any work begins; may be empty.
using AddDevices = std::function<void(compute::DeviceRoster&)>;

Result<std::unique_ptr<Node>> start_node(NodeConfig config, NodeParts parts,
                                         const AddDevices& add_devices = {});

}  // namespace gpunode::node
