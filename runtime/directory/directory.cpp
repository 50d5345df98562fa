#include "runtime/directory/directory.hpp"

#include "runtime/directory/detail/directory_core.hpp"

namespace gpunode::directory {

Directory::Directory(NodeId self, Boot epoch, DirectoryConfig config, DirectorySigning signing,
                     std::uint64_t seed, Time now)
    : core_(std::make_unique<Core>(self, epoch, config, std::move(signing), seed, now)) {}
Directory::~Directory() = default;
Directory::Directory(Directory&&) noexcept = default;
Directory& Directory::operator=(Directory&&) noexcept = default;

Result<Actions> Directory::set(Time now, std::string_view key, ByteView value) {
  if (auto done = core_->set(now, key, value); !done) return done.error();
  return core_->take();
}

Actions Directory::erase(Time now, std::string_view key) {
  core_->erase(now, key);
  return core_->take();
}

Actions Directory::on_tick(Time now) {
  core_->on_tick(now);
  return core_->take();
}

Actions Directory::on_message(Time now, const NodeId& from, ByteView bytes) {
  core_->on_message(now, from, bytes);
  return core_->take();
}

Actions Directory::on_peer_up(Time, const NodeId& peer) {
  core_->on_peer_up(peer);
  return core_->take();
}

Actions Directory::on_peer_gone(Time now, const NodeId& peer) {
  core_->on_peer_gone(now, peer);
  return core_->take();
}

std::optional<Bytes> Directory::get(const NodeId& owner, std::string_view key) const {
  return core_->get(owner, key);
}
std::vector<Entry> Directory::scan(std::string_view prefix) const {
  return core_->scan(prefix);
}
Hash Directory::root() const {
  return core_->root();
}
std::uint64_t Directory::rejected_updates() const {
  return core_->rejected();
}

}  // namespace gpunode::directory
