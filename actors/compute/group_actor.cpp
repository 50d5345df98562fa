#include "actors/compute/group_actor.hpp"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>

#include <chrono>
#include <utility>

#include "actors/messages.hpp"

namespace gpunode::compute {

namespace {

// All members are told within two seconds, and a library takes some to find its way.
constexpr std::chrono::seconds kJoinTimeout{30};

Result<void> form(const caf::actor& job, NodeDevice& device, bool between_machines,
                  job::OpenGroup wish) {
  auto opened = device.backend().open_group(between_machines);
  if (!opened) return opened.error();
  const std::shared_ptr<ops::DeviceGroup> group = *std::move(opened);
  caf::anon_send(job, GroupOpened{wish.view, group});
  if (wish.rank == 0) {
    auto invite = group->invite();
    if (!invite) return invite.error();
    wish.invite = *std::move(invite);
    caf::anon_send(job, GroupInvited{wish.view, wish.invite});
  }
  return group->join(wish.invite, wish.rank, wish.size, kJoinTimeout);
}

}  // namespace

void spawn_group(caf::actor_system& system, caf::actor job, NodeDevice& device,
                 bool between_machines, job::OpenGroup wish) {
  system.spawn<caf::detached>([=, &device](caf::event_based_actor* self) {
    const auto formed = form(job, device, between_machines, wish);
    caf::anon_send(job, GroupFormed{wish.view, formed ? "" : formed.error().message()});
    self->quit();
  });
}

}  // namespace gpunode::compute
