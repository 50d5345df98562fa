#include "runtime/membership/swim.hpp"

#include "runtime/membership/detail/swim_core.hpp"

namespace gpunode::membership {

Swim::Swim(MemberRecord self, SwimConfig config, RecordSigning signing, std::uint64_t seed,
           Time now)
    : core_(std::make_unique<Core>(std::move(self), config, std::move(signing), seed, now)) {}
Swim::~Swim() = default;
Swim::Swim(Swim&&) noexcept = default;
Swim& Swim::operator=(Swim&&) noexcept = default;

Actions Swim::on_tick(Time now) {
  core_->begin(now);
  core_->on_tick();
  return core_->finish();
}

Actions Swim::on_message(Time now, const NodeId& from, ByteView bytes) {
  core_->begin(now);
  core_->on_message(from, bytes);
  return core_->finish();
}

Actions Swim::on_traffic(Time now, const NodeId& from) {
  core_->begin(now);
  core_->on_traffic(from);
  return core_->finish();
}

Actions Swim::on_connection(Time now, const NodeId& peer, LinkState state) {
  core_->begin(now);
  core_->on_connection(peer, state);
  return core_->finish();
}

Actions Swim::leave(Time now) {
  core_->begin(now);
  core_->leave();
  return core_->finish();
}

Actions Swim::add_seed(Time now, const MemberRecord& record) {
  core_->begin(now);
  core_->add_seed(record);
  return core_->finish();
}

Actions Swim::announce(Time now, const MemberRecord& changed) {
  core_->begin(now);
  core_->announce(changed);
  return core_->finish();
}

Duration Swim::tick_interval() const {
  return core_->config().period / 4;
}
const MemberRecord& Swim::self() const {
  return core_->self();
}
const std::map<NodeId, Member>& Swim::members() const {
  return core_->members();
}
std::size_t Swim::live_count() const {
  return core_->live_count();
}
int Swim::local_health() const {
  return core_->health();
}
std::uint64_t Swim::rejected_messages() const {
  return core_->rejected();
}

const Member* Swim::find(const NodeId& id) const {
  const auto found = core_->members().find(id);
  return found == core_->members().end() ? nullptr : &found->second;
}

}  // namespace gpunode::membership
