#include "actors/node/call_actor.hpp"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>

#include "actors/mailbox.hpp"

namespace gpunode::node {
namespace {

constexpr auto kTick = std::chrono::milliseconds(20);

struct KeepTime {};  // to itself: calls wait

struct State {
  static inline const char* name = "calls";
  std::shared_ptr<Calls> calls;
};
using Self = caf::stateful_actor<State>;

caf::behavior behaviour(Self* self, std::shared_ptr<Calls> calls) {
  self->state.calls = std::move(calls);
  expect_known_messages(self);
  return {
      [self](const CallRequest& request) { self->state.calls->start(request); },
      [self](const KeepTime&) { self->delayed_send(self, kTick, Tick{}); },
      [self](const Publish& publish) { (void)self->state.calls->publish(publish); },
      [self](const PeerChanged& peer) {
        if (peer.health == PeerHealth::dead || peer.health == PeerHealth::left)
          self->state.calls->on_peer_gone(peer.peer);
        if (peer.health == PeerHealth::alive) self->state.calls->on_peer_here(peer.peer);
      },
      [self](const LinkChanged& link) {
        if (link.state == LinkState::reset)
          self->state.calls->on_peer_gone(link.peer, link.lane == transport::Lane::bulk);
        if (link.state == LinkState::up && link.lane == transport::Lane::control)
          self->state.calls->on_peer_here(link.peer);
      },
      [self](const Tick&) {
        if (self->state.calls->on_tick()) self->delayed_send(self, kTick, Tick{});
      },
      [self](const Shutdown&) {
        self->state.calls->close();
        self->quit();
      },
  };
}

}  // namespace

caf::actor spawn_calls(caf::actor_system& system, const std::shared_ptr<Calls>& calls) {
  const caf::actor actor = system.spawn(behaviour, calls);
  calls->on_wait([me = caf::actor_cast<caf::weak_actor_ptr>(actor)] {
    if (auto there = me.lock()) caf::anon_send(caf::actor_cast<caf::actor>(there), KeepTime{});
  });
  return actor;
}

}  // namespace gpunode::node
