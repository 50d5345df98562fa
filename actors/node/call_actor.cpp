#include "actors/node/call_actor.hpp"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include "actors/mailbox.hpp"

namespace gpunode::node {
namespace {

constexpr auto kTick = std::chrono::milliseconds(20);

struct State {
  static inline const char* name = "calls";
  std::shared_ptr<Calls> calls;
  bool ticks = false;
};
using Self = caf::stateful_actor<State>;

void keep_time(Self* self) {
  self->state.ticks = self->state.calls->waiting();
  if (self->state.ticks) self->delayed_send(self, kTick, Tick{});
}

caf::behavior behaviour(Self* self, std::shared_ptr<Calls> calls) {
  self->state.calls = std::move(calls);
  expect_known_messages(self);
  return {
      [self](const CallRequest& request) {
        self->state.calls->start(request);
        if (!self->state.ticks) keep_time(self);
      },
      [self](const Publish& publish) { (void)self->state.calls->publish(publish); },
      [self](const PeerChanged& peer) {
        if (peer.health == PeerHealth::dead || peer.health == PeerHealth::left)
          self->state.calls->on_peer_gone(peer.peer);
      },
      [self](const LinkChanged& link) {
        if (link.state == LinkState::reset)
          self->state.calls->on_peer_gone(link.peer, link.lane == transport::Lane::bulk);
      },
      [self](const Tick&) {
        self->state.calls->on_tick();
        keep_time(self);
      },
      [self](const Shutdown&) {
        self->state.calls->close();
        self->quit();
      },
  };
}

}  // namespace

caf::actor spawn_calls(caf::actor_system& system, std::shared_ptr<Calls> calls) {
  return system.spawn(behaviour, std::move(calls));
}

}  // namespace gpunode::node
