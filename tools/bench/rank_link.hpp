// The links among the ranks of one benchmark: each opens the product's MeshLink with fresh keys,
// tells its addresses on the board and waits until it reaches every other.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/transport/mesh_link.hpp"
#include "runtime/view/signer.hpp"
#include "tools/bench/rank_board.hpp"

namespace gpunode::bench {

struct RankLinkOptions {
  std::uint32_t rank = 0;
  bool bulk_plain = false;
  std::string address = "127.0.0.1";  // to listen on
};

struct RankLink {
  std::unique_ptr<transport::MeshLink> link;
  std::vector<NodeId> members;                 // by rank
  std::shared_ptr<const view::Signer> signer;  // of the rank's votes
};

// Fails with: what MeshLink::open fails with, timeout (a rank is not reached).
Result<RankLink> open_rank_link(RankBoard& board, const RankLinkOptions& options,
                                transport::LinkEvents events);

}  // namespace gpunode::bench
