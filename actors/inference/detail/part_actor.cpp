#include "actors/inference/detail/part_actor.hpp"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>

#include <malloc.h>

#include "actors/inference/detail/model_actor.hpp"
#include "actors/inference/served_part.hpp"
#include "actors/mailbox.hpp"
#include "kernels/model/model_code.hpp"

namespace gpunode::inference {
namespace {

// A head waits for one pass of each part; of a node, with all its heads here, no more are kept.
constexpr std::size_t kMostWaiting = 16;
constexpr auto kLookAtRoomEvery = std::chrono::minutes(1);

struct PartState {
  static inline const char* name = "part";
  std::unique_ptr<ServedPart> part;
  const Clock* clock = nullptr;
};
using PartSelf = caf::stateful_actor<PartState>;

struct LookAtRoom {};
void answer(const PartState& state, const PartOrder& order) {
  if (!state.part) return order.reply(Error{ErrorCode::unavailable, "the part is not loaded"});
  // Nobody waits for it any more, and others do.
  if (state.clock->now() >= order.reply.deadline())
    return order.reply(Error{ErrorCode::timeout, "its turn came too late"});
  const auto made = state.part->answer(*order.asked, order.from);
  order.reply(made ? Result<SharedBytes>(SharedBytes::from(encode_part(*made)))
                   : Result<SharedBytes>(made.error()));
}

void end(PartSelf* self) {
  self->state.part.reset();
  malloc_trim(0);
  self->quit();
}

caf::behavior behaviour(PartSelf* self, const caf::actor& owner, const std::string& name) {
  expect_known_messages(self);
  return {
      [self, owner, name](const Load& load) {
        auto part = ServedPart::load(load.options);
        if (!part) {
          malloc_trim(0);
          return self->send(owner, Loaded{name, self->address(), part.error()});
        }
        self->state.part = *std::move(part);
        self->state.clock = load.options.clock;
        self->delayed_send(self, kLookAtRoomEvery, LookAtRoom{});
        self->send(owner, Loaded{name, self->address(), self->state.part->facts()});
      },
      [self](const PartOrder& order) { answer(self->state, order); },
      [self](const LookAtRoom&) {
        if (self->state.part) self->state.part->forget_unused();
        self->delayed_send(self, kLookAtRoomEvery, LookAtRoom{});
      },
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

std::shared_ptr<void> PartShelf::enter(const std::shared_ptr<PartShelf>& shelf,
                                       const NodeId& from) {
  {
    std::lock_guard lock(shelf->mutex_);
    if (shelf->waiting_[from] >= kMostWaiting) return {};
    ++shelf->waiting_[from];
  }
  return {shelf.get(), [shelf, from](void*) {
            std::lock_guard leaving(shelf->mutex_);
            if (--shelf->waiting_[from] == 0) shelf->waiting_.erase(from);
          }};
}

struct PartShelf::Unread {
  NodeId from;
  SharedBytes bytes;
  CallReply reply;
  std::shared_ptr<void> place;
};

void PartShelf::pass_on(Unread& request) {
  auto message = decode_part(request.bytes.view);
  if (!message) return request.reply(message.error());
  const auto name = part_in(*message);
  if (!name) return request.reply(Error{ErrorCode::invalid_argument, "not a question"});
  const caf::actor part = find(*name);
  if (!part)
    return request.reply(Error{ErrorCode::not_found, "this node serves no part " + name->text() +
                                                         " of a model of the digest " +
                                                         name->digest.text().substr(0, 12)});
  caf::anon_send(part,
                 PartOrder{request.from, std::make_shared<const PartMessage>(*std::move(message)),
                           std::move(request.reply), std::move(request.place)});
}

caf::behavior PartShelf::read(caf::event_based_actor* self,
                              const std::shared_ptr<PartShelf>& shelf) {
  expect_known_messages(self);
  return {[shelf](Unread& request) {
    const CallReply reply = request.reply;
    const auto done = model::guarded("a pass", [&]() -> Result<void> {
      shelf->pass_on(request);
      return {};
    });
    if (!done) reply(done.error());  // as where there is no memory: others are read all the same
  }};
}

// What reads the requests ends with the handler, which alone knows it.
CallHandler PartShelf::answers(std::shared_ptr<PartShelf> shelf, caf::actor_system& system) {
  const auto reader =
      system.spawn([shelf](caf::event_based_actor* self) { return read(self, shelf); });
  return [shelf = std::move(shelf), reader](const NodeId& from, const SharedBytes& bytes,
                                            CallReply reply) {
    auto place = enter(shelf, from);
    if (!place)
      return reply(Error{ErrorCode::resource_exhausted,
                         std::to_string(kMostWaiting) + " passes of yours wait here already"});
    caf::anon_send(reader, Unread{from, bytes, std::move(reply), std::move(place)});
  };
}

caf::actor spawn_part(caf::actor_system& system, const caf::actor& owner, const std::string& name) {
  return system.spawn<caf::detached>(behaviour, owner, name);
}

}  // namespace gpunode::inference
