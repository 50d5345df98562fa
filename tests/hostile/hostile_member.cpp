#include "tests/hostile/hostile_member.hpp"

#include <chrono>
#include <thread>

#include "actors/node/member_list.hpp"
#include "runtime/security/cluster_identity.hpp"
#include "runtime/security/crypto.hpp"

namespace gpunode::hostile {

Result<std::unique_ptr<Member>> Member::open(const std::string& state_directory) {
  storage::PosixFileSystem files;
  auto identity = security::Identity::load_or_create(files, state_directory);
  if (!identity) return identity.error();
  std::unique_ptr<Member> member(new Member(std::move(*identity)));
  auto cluster = security::ClusterIdentity::load(member->files_, state_directory);
  if (!cluster) return cluster.error();
  auto admissions = security::Admissions::open(member->files_, state_directory, *cluster);
  if (!admissions) return admissions.error();
  member->admissions_ = std::move(*admissions);
  const storage::DurableRecord kept(member->files_, storage::Path(state_directory) / "peers",
                                    {{'P', 'E', 'E', 'R'}, 1});
  const auto stored = kept.load();
  if (!stored) return stored.error();
  const auto known = member->admissions_->snapshot();
  for (membership::MemberRecord& record : node::split_records(stored->value_or(Bytes()))) {
    const auto* standing = known->find(record.id);
    if (!standing || !standing->curve_key || record.id == member->identity_.id()) continue;
    member->peers_.push_back({std::move(record), standing->curve_key->value});
  }
  if (member->peers_.empty()) return {ErrorCode::not_found, "no peer is known there"};

  transport::MeshLinkOptions options;
  options.node = member->identity_.id();
  // Later than any life of the node whose keys these are.
  member->boot_ = static_cast<Boot>(std::chrono::system_clock::now().time_since_epoch() /
                                    std::chrono::seconds(1));
  options.boot = member->boot_;
  options.curve_public_key = member->identity_.curve_key().value;
  std::memcpy(options.curve_secret_key.data(), member->identity_.curve_secret().view().data(), 32);
  options.admit = [](const transport::CurveKey&) { return transport::KeyVerdict{}; };
  transport::LinkEvents events;
  events.on_message = [self = member.get()](const NodeId& from, transport::Lane,
                                            transport::Message message) {
    self->on_message(from, message);
  };
  events.on_state = [self = member.get()](const NodeId& peer, transport::Lane lane,
                                          LinkState state) {
    const Watcher watcher = self->watcher();
    if (watcher.on_state) watcher.on_state(peer, lane, state);
  };
  auto link = transport::MeshLink::open(std::move(options), std::move(events));
  if (!link) return link.error();
  member->link_ = std::move(*link);
  for (const Peer& peer : member->peers_)
    member->link_->set_peer({peer.record.id, peer.record.incarnation.boot,
                             peer.record.control_endpoints, peer.record.bulk_endpoints,
                             peer.curve});
  return member;
}

membership::MemberRecord Member::own_record() const {
  membership::MemberRecord record;
  record.id = identity_.id();
  record.name = "mallory";
  record.incarnation = {boot_, 0};
  record.sign_key = identity_.sign_key().value;
  record.dial_only = true;
  return record;
}

directory::DirectorySigning Member::directory_signing() const {
  return {[](ByteView bytes) { return security::sha256(bytes); },
          [this](ByteView bytes) { return to_bytes(identity_.sign("directory", bytes)); },
          [](const NodeId&, ByteView, ByteView) { return true; }};
}

void Member::watch(Watcher watcher) {
  std::lock_guard lock(mutex_);
  watcher_ = std::move(watcher);
}

Member::Watcher Member::watcher() const {
  std::lock_guard lock(mutex_);
  return watcher_;
}

void Member::on_message(const NodeId& from, const transport::Message& message) {
  if (const Watcher watcher = this->watcher(); watcher.on_message)
    watcher.on_message(from, message);
  if (message.topic == transport::Topic::reply && on_reply) on_reply(message);
  {
    std::lock_guard lock(mutex_);
    if (heard_.size() < 256)
      heard_.push_back(message);
    else
      heard_[message.body.size() % heard_.size()] = message;
  }
  const Duration pause = pause_;
  if (pause > Duration{}) std::this_thread::sleep_for(pause);
}

std::vector<transport::Message> Member::heard() const {
  std::lock_guard lock(mutex_);
  return heard_;
}

}  // namespace gpunode::hostile
