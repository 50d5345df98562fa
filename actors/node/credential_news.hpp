// What this node tells others of who may be here: news to all it has a session with; at the start of a
// session all that it knows, where that is little, else whom it knows to be put out, and a summary, to
// which the peer answers with what it knows otherwise, in pages. Owned by the admission actor.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "runtime/security/admission.hpp"
#include "runtime/transport/link.hpp"

namespace gpunode::node {

class CredentialNews {
 public:
  // Both outlive it.
  CredentialNews(transport::Link& link, const security::Admissions& list)
      : link_(&link), list_(&list) {}

  void on_session(const NodeId& peer);  // begins it
  void on_reset(const NodeId& peer) { linked_.erase(peer); }
  const std::set<NodeId>& linked() const { return linked_; }

  void spread(const security::Credentials& news);
  void greet_all();  // as if their sessions began now
  void on_summary(const NodeId& from, ByteView bytes);
  void on_tick();  // sends pages

 private:
  std::vector<transport::Message> greeting() const;
  // Fails as the first one that cannot be sent does; a shorter one behind it may go.
  Result<void> tell(const NodeId& to, const std::vector<transport::Message>& messages);

  transport::Link* link_;
  const security::Admissions* list_;
  std::set<NodeId> linked_;
  std::map<NodeId, std::set<std::size_t>> pages_;  // buckets, still to be sent
};

}  // namespace gpunode::node
