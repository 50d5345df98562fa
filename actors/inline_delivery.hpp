// Runs an idle actor's handler on the thread that brings its message, instead of waking a thread of
// the pool for it: an exchange is a chain of short answers to messages, and each wake-up costs as
// much as the answer. For actors whose handlers are short; one that is busy on the pool just gets
// the message queued, so nothing is reordered. Other actors that it sends to run on the pool.
// Owned by whoever owns the receiving thread; must outlive the actors that it ran.
#pragma once

#include <caf/abstract_actor.hpp>
#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/execution_unit.hpp>
#include <caf/logger.hpp>
#include <caf/message.hpp>
#include <caf/resumable.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

namespace gpunode {

class InlineDelivery final : public caf::execution_unit {
 public:
  explicit InlineDelivery(caf::actor_system& system) : caf::execution_unit(&system) {}

  // From one thread at a time.
  template <class Message>
  void deliver(const caf::actor& target, Message message) {
    target_ = nullptr;
    delivering_ = true;
    caf::actor_cast<caf::abstract_actor*>(target)->enqueue(
        nullptr, caf::make_message_id(), caf::make_message(std::move(message)), this);
    delivering_ = false;
    if (!target_) return;  // it is busy elsewhere
    switch (target_->resume(this, kMostMessages)) {
      case caf::resumable::resume_later:
        system().scheduler().enqueue(target_);
        break;
      default:
        caf::intrusive_ptr_release(target_);
    }
    // Who spawns leaves a reference to the system's logger in its thread, for which the system waits
    // at its end; this thread may outlive it.
    caf::logger::set_current_actor_system(nullptr);
  }

  void exec_later(caf::resumable* job) override {
    if (delivering_)
      target_ = job;
    else
      system().scheduler().enqueue(job);
  }

 private:
  static constexpr std::size_t kMostMessages = 16;
  caf::resumable* target_ = nullptr;
  bool delivering_ = false;
};

}  // namespace gpunode
