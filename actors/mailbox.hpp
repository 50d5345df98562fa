// How every actor of the house treats what it does not know. CAF's own `drop` answers the sender
// with an error, and an actor that gets an error it does not handle ends; a subscriber that has no
// use for one kind of news would so end its publisher. Here the receiver says aloud what it got,
// and goes on; who knowingly ignores a message has an empty handler for it.
#pragma once

#include <cxxabi.h>

#include <caf/message.hpp>
#include <caf/message_view.hpp>
#include <caf/result.hpp>
#include <caf/scheduled_actor.hpp>
#include <caf/type_erased_tuple.hpp>

#include <cstdlib>
#include <memory>
#include <string>

#include "actors/stray.hpp"
#include "runtime/base/check.hpp"
#include "runtime/base/log.hpp"

namespace gpunode {

// The types of a message's parts, as the source spells them.
inline std::string types_of(const caf::type_erased_tuple& message) {
  std::string names;
  for (std::size_t part = 0; part < message.size(); ++part) {
    const auto [number, type] = message.type(part);
    names += part == 0 ? "" : ", ";
    if (!type) {
      names += "CAF's type " + std::to_string(number);
      continue;
    }
    const std::unique_ptr<char, void (*)(void*)> name(
        abi::__cxa_demangle(type->name(), nullptr, nullptr, nullptr), std::free);
    names += name ? name.get() : type->name();
  }
  return names;
}

// To be called once, in the actor's behaviour function.
inline void expect_known_messages(caf::scheduled_actor* self) {
  self->set_default_handler(
      [](caf::scheduled_actor* actor, caf::message_view& stray) -> caf::result<caf::message> {
        const std::string text = std::string(actor->name()) + " got a message that it does not " +
                                 "know: " + types_of(stray.content());
        log::warning("actors", text);
        GPUNODE_CHECK(!stray_messages_abort, text);
        return caf::message{};
      });
  self->set_error_handler([](caf::scheduled_actor* actor, caf::error& error) {
    log::warning("actors", std::string(actor->name()) + " got the error " + to_string(error));
  });
}

// For who stands in for another actor and has no part in what that one is told.
inline void ignore_all_messages(caf::scheduled_actor* self) {
  expect_known_messages(self);
  self->set_default_handler(
      [](caf::scheduled_actor*, caf::message_view&) -> caf::result<caf::message> {
        return caf::message{};
      });
}

}  // namespace gpunode
