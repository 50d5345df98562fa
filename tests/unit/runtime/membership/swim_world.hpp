// One Swim, to which the test plays everybody else.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "runtime/membership/membership_codec.hpp"
#include "runtime/membership/swim.hpp"
#include "tests/unit/runtime/membership/records.hpp"

namespace gpunode::membership {

// Node 0 is under test.
class SwimTest : public ::testing::Test {
 protected:
  Swim make(SwimConfig config = {}) {
    MemberRecord self = test_record(0);
    return Swim(self, config, test_signing(0), 1, now);
  }
  // Tells `swim` of these members, each by itself.
  void introduce(Swim& swim, const std::vector<int>& members) {
    for (const int index : members) say(swim, index, alive(test_record(index)));
  }
  static Message alive(const MemberRecord& record) {
    Message message;
    message.rumors.push_back({PeerHealth::alive, record.id, record.incarnation, {}, {}, record});
    return message;
  }
  static Message claim(PeerHealth state, int subject, Incarnation incarnation,
                       std::vector<NodeId> observers = {}, std::vector<NodeId> refused_by = {}) {
    Message message;
    message.rumors.push_back({state, test_id(subject), incarnation, std::move(observers),
                              std::move(refused_by), std::nullopt});
    return message;
  }
  Actions say(Swim& swim, int from, const Message& message) {
    return swim.on_message(now, test_id(from), encode(message));
  }
  // Ticks for this long; `answering` members answer every ping at once.
  Actions run(Swim& swim, Duration time, const std::vector<int>& answering = {}) {
    Actions all;
    for (const Time end = now + time; now < end;) {
      now += swim.tick_interval();
      for (Action& action : swim.on_tick(now)) {
        if (const auto* send = std::get_if<Send>(&action)) {
          for (const int index : answering)
            if (send->to == test_id(index)) swim.on_traffic(now, test_id(index));
        }
        all.push_back(std::move(action));
      }
    }
    return all;
  }
  static std::vector<Message> sent_to(const Actions& actions, int index) {
    std::vector<Message> messages;
    for (const Action& action : actions)
      if (const auto* send = std::get_if<Send>(&action); send && send->to == test_id(index))
        messages.push_back(*decode(send->bytes));
    return messages;
  }
  template <class Kind>
  static int count(const Actions& actions) {
    return static_cast<int>(std::count_if(actions.begin(), actions.end(), [](const Action& a) {
      return std::holds_alternative<Kind>(a);
    }));
  }
  static PeerHealth state(const Swim& swim, int index) { return swim.find(test_id(index))->state; }

  Time now = Time{} + std::chrono::hours(1);
};

}  // namespace gpunode::membership
