#include "tools/bench/rank_link.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <sstream>

#include "actors/node/vote_signer.hpp"
#include "runtime/security/identity.hpp"

namespace gpunode::bench {

namespace {

// The keys of a rank, as long as somebody signs with them.
struct RankKeys {
  security::Identity identity = security::Identity::create();
  node::VoteSigner signer{identity};
};

constexpr auto kTimeout = std::chrono::seconds(20);

// What the link's threads read and report while the ranks find each other.
struct Roll {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<transport::CurveKey, NodeId> keys;
  std::map<NodeId, bool> up;
};

template <std::size_t N>
std::array<std::byte, N> array_of(const std::string& hex) {
  std::array<std::byte, N> value{};
  const Bytes bytes = from_hex(hex);
  if (bytes.size() == N) std::copy(bytes.begin(), bytes.end(), value.begin());
  return value;
}

transport::PeerAddress read_address(const std::string& line) {
  std::istringstream words(line);
  std::string node, key, control, bulk;
  words >> node >> key >> control >> bulk;
  transport::PeerAddress address;
  address.node.value = array_of<32>(node);
  address.curve_public_key = array_of<32>(key);
  address.boot = 1;
  address.control_endpoints = {control};
  address.bulk_endpoints = {bulk};
  return address;
}

transport::LinkEvents watched(transport::LinkEvents events, const std::shared_ptr<Roll>& roll) {
  auto inner = std::move(events.on_state);
  events.on_state = [roll, inner](const NodeId& peer, transport::Lane lane, LinkState state) {
    if (lane == transport::Lane::control) {
      std::lock_guard lock(roll->mutex);
      roll->up[peer] = state == LinkState::up;
      roll->changed.notify_all();
    }
    if (inner) inner(peer, lane, state);
  };
  return events;
}

}  // namespace

Result<RankLink> open_rank_link(RankBoard& board, const RankLinkOptions& options,
                                transport::LinkEvents events) {
  const auto keys = std::make_shared<RankKeys>();
  const security::Identity& identity = keys->identity;
  auto roll = std::make_shared<Roll>();
  transport::MeshLinkOptions chosen;
  chosen.node = identity.id();
  chosen.boot = 1;
  chosen.curve_public_key = identity.curve_key().value;
  const ByteView secret = identity.curve_secret().view();
  std::copy(secret.begin(), secret.end(), chosen.curve_secret_key.begin());
  chosen.control_listen = {"tcp://" + options.address + ":0"};
  chosen.bulk_listen = {"tcp://" + options.address + ":0"};
  chosen.bulk_plain = options.bulk_plain;
  chosen.redial_min = std::chrono::milliseconds(10);
  chosen.admit = [roll](const transport::CurveKey& key) -> transport::KeyVerdict {
    std::lock_guard lock(roll->mutex);
    const auto found = roll->keys.find(key);
    if (found == roll->keys.end()) return {};
    return {transport::KeyVerdict::Answer::accepted, found->second};
  };
  auto link = transport::MeshLink::open(std::move(chosen), watched(std::move(events), roll));
  if (!link) return link.error();

  board.tell(options.rank, to_hex(identity.id().value) + " " + to_hex(identity.curve_key().value) +
                               " " + (*link)->control_endpoints().front() + " " +
                               (*link)->bulk_endpoints().front());
  board.meet();
  RankLink result;
  result.signer = std::shared_ptr<const view::Signer>(keys, &keys->signer);
  std::vector<transport::PeerAddress> peers;
  for (std::uint32_t rank = 0; rank < board.ranks(); ++rank) {
    transport::PeerAddress address = read_address(board.told(rank));
    result.members.push_back(address.node);
    if (rank != options.rank) peers.push_back(std::move(address));
  }
  {
    std::lock_guard lock(roll->mutex);
    for (const transport::PeerAddress& peer : peers) roll->keys[peer.curve_public_key] = peer.node;
  }
  board.meet();  // nobody knocks before all know all keys
  for (const transport::PeerAddress& peer : peers) (*link)->set_peer(peer);
  std::unique_lock lock(roll->mutex);
  const bool reached = roll->changed.wait_for(lock, kTimeout, [&] {
    return std::all_of(peers.begin(), peers.end(),
                       [&](const auto& peer) { return roll->up[peer.node]; });
  });
  if (!reached) return Error{ErrorCode::timeout, "not all ranks can be reached"};
  result.link = std::move(*link);
  return result;
}

}  // namespace gpunode::bench
