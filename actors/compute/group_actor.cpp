#include "actors/compute/group_actor.hpp"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>

#include <chrono>
#include <utility>

namespace gpunode::compute {

namespace {

// A member begins to join when its trainer has done what it is at.
constexpr std::chrono::seconds kJoinTimeout{120};

Result<void> form(const caf::actor& job, NodeDevice& device, const FormGroup& order) {
  job::OpenGroup wish = order.wish;
  auto opened = device.backend().open_group(wish.between_machines);
  if (!opened) return opened.error();
  const std::shared_ptr<ops::DeviceGroup> group = *std::move(opened);
  order.slot->put(group);
  if (wish.rank == 0) {
    auto invite = group->invite();
    if (!invite) return invite.error();
    wish.invite = *std::move(invite);
    caf::anon_send(job, GroupInvited{wish.view, wish.invite});
  }
  return group->join(wish.invite, wish.rank, wish.size, kJoinTimeout);
}

}  // namespace

void spawn_group(caf::actor_system& system, caf::actor job, NodeDevice& device, FormGroup order) {
  system.spawn<caf::detached>([=, &device](caf::event_based_actor* self) {
    const auto formed = form(job, device, order);
    caf::anon_send(job, GroupFormed{order.wish.view, formed ? "" : formed.error().message()});
    self->quit();
  });
}

}  // namespace gpunode::compute
