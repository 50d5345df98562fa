// A member of a cluster that says what it likes: the keys of a state directory that `gpunode join` has
// filled and whose node has ended, a link to all its peers, and nothing of a node's behaviour.
// Owner: one process; its link's threads note what came in.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/base/rng.hpp"
#include "runtime/directory/directory.hpp"
#include "runtime/membership/member_record.hpp"
#include "runtime/security/admission.hpp"
#include "runtime/security/identity.hpp"
#include "runtime/storage/posix_file_system.hpp"
#include "runtime/transport/mesh_link.hpp"

namespace gpunode::hostile {

struct Peer {
  membership::MemberRecord record;
  transport::CurveKey curve{};
};

class Member {
 public:
  static Result<std::unique_ptr<Member>> open(const std::string& state_directory);
  ~Member() { link_->close(); }

  const security::Identity& identity() const { return identity_; }
  const std::vector<Peer>& peers() const { return peers_; }
  const Peer& some_peer(Rng& rng) const { return peers_[rng.below(peers_.size())]; }
  security::Credentials credentials() const { return admissions_->all(); }
  // Not signed yet.
  membership::MemberRecord own_record() const;
  // Signs its own part, and believes all others'.
  directory::DirectorySigning directory_signing() const;

  bool send(const NodeId& to, transport::Lane lane, transport::Message message) {
    ++said_;
    return link_->send(to, lane, std::move(message)).has_value();
  }
  std::uint64_t said() const { return said_; }
  // What others have said lately, to be said again.
  std::vector<transport::Message> heard() const;
  // Reads nothing more, for so long, whenever something came in: what others send stays with them.
  void read_slowly(Duration pause) { pause_ = pause; }
  // Told of all that comes in, on the link's threads; null: of nothing.
  struct Watcher {
    std::function<void(const NodeId& from, const transport::Message& message)> on_message;
    std::function<void(const NodeId& peer, transport::Lane lane, LinkState state)> on_state;
  };
  void watch(Watcher watcher);
  Watcher watcher() const;
  // Told of each reply to a call, on the link's thread.
  std::function<void(const transport::Message& reply)> on_reply;

 private:
  Member(security::Identity identity) : identity_(std::move(identity)) {}
  void on_message(const NodeId& from, const transport::Message& message);

  storage::PosixFileSystem files_;
  security::Identity identity_;
  std::unique_ptr<security::Admissions> admissions_;
  std::vector<Peer> peers_;
  std::unique_ptr<transport::MeshLink> link_;
  Boot boot_ = 0;
  std::atomic<std::uint64_t> said_{0};
  std::atomic<Duration> pause_{Duration{}};
  mutable std::mutex mutex_;
  std::vector<transport::Message> heard_;
  Watcher watcher_;
};

}  // namespace gpunode::hostile
