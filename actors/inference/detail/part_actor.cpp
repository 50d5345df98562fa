#include "actors/inference/detail/part_actor.hpp"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>

#include <malloc.h>

#include "actors/inference/detail/model_actor.hpp"
#include "actors/inference/served_part.hpp"
#include "actors/mailbox.hpp"

namespace gpunode::inference {
namespace {

struct State {
  static inline const char* name = "part";
  std::unique_ptr<ServedPart> part;
};
using Self = caf::stateful_actor<State>;

void answer(const State& state, const PartOrder& order) {
  if (!state.part) return order.reply(Error{ErrorCode::unavailable, "the part is not loaded"});
  const auto made = state.part->answer(*order.asked, order.from);
  order.reply(made ? Result<SharedBytes>(SharedBytes::from(encode_part(*made)))
                   : Result<SharedBytes>(made.error()));
}

void end(Self* self) {
  self->state.part.reset();
  malloc_trim(0);
  self->quit();
}

caf::behavior behaviour(Self* self, const caf::actor& owner, const std::string& name) {
  expect_known_messages(self);
  return {
      [self, owner, name](const Load& load) {
        auto part = ServedPart::load(load.options);
        if (!part) {
          malloc_trim(0);
          return self->send(owner, Loaded{name, self->address(), part.error()});
        }
        self->state.part = *std::move(part);
        self->send(owner, Loaded{name, self->address(), self->state.part->facts()});
      },
      [self](const PartOrder& order) { answer(self->state, order); },
      // Heads have the texts, and turn to another node with them.
      [self](const Drain&) { end(self); },
      [](const SetVersion&) {},
      [self](const Shutdown&) { end(self); },
  };
}

std::optional<PartName> part_in(const PartMessage& asked) {
  if (const auto* open = std::get_if<PartOpen>(&asked)) return open->part;
  if (const auto* close = std::get_if<PartClose>(&asked)) return close->part;
  if (const auto* pass = std::get_if<PartPass>(&asked)) return pass->part;
  return {};
}

}  // namespace

void PartShelf::put(const PartName& name, const caf::actor& part) {
  take(part);
  std::lock_guard lock(mutex_);
  parts_.emplace(name, part);
}

void PartShelf::take(const caf::actor& part) {
  std::lock_guard lock(mutex_);
  std::erase_if(parts_, [&](const auto& one) { return one.second == part; });
}

caf::actor PartShelf::find(const PartName& name) const {
  std::lock_guard lock(mutex_);
  const auto found = parts_.find(name);
  return found == parts_.end() ? caf::actor() : found->second;
}

CallHandler PartShelf::answers(std::shared_ptr<PartShelf> shelf) {
  return [shelf = std::move(shelf)](const NodeId& from, const SharedBytes& bytes, CallReply reply) {
    auto message = decode_part(bytes.view);
    if (!message) return reply(message.error());
    const auto name = part_in(*message);
    if (!name) return reply(Error{ErrorCode::invalid_argument, "not a question"});
    const caf::actor part = shelf->find(*name);
    if (!part)
      return reply(Error{ErrorCode::not_found, "this node serves no part " + name->text() +
                                                   " of a model of the digest " +
                                                   name->digest.text().substr(0, 12)});
    caf::anon_send(part, PartOrder{from, std::make_shared<const PartMessage>(*std::move(message)),
                                   std::move(reply)});
  };
}

caf::actor spawn_part(caf::actor_system& system, const caf::actor& owner, const std::string& name) {
  return system.spawn<caf::detached>(behaviour, owner, name);
}

}  // namespace gpunode::inference
