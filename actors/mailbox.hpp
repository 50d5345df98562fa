// How every actor of the house treats what it does not know: it says nothing. CAF's own `drop`
// answers the sender with an error, and an actor that gets an error it does not handle ends; a
// subscriber that ignores one kind of news would so end its publisher.
#pragma once

#include <caf/message.hpp>
#include <caf/message_view.hpp>
#include <caf/result.hpp>
#include <caf/scheduled_actor.hpp>

#include "runtime/base/log.hpp"

namespace gpunode {

inline void ignore_unknown_messages(caf::scheduled_actor* self) {
  self->set_default_handler(
      [](caf::scheduled_actor*, caf::message_view&) -> caf::result<caf::message> {
        return caf::message{};
      });
  self->set_error_handler([](caf::scheduled_actor* actor, caf::error& error) {
    log::warning("actors", std::string(actor->name()) + " got the error " + to_string(error));
  });
}

}  // namespace gpunode
