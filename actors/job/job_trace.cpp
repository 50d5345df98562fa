#include "actors/job/job_trace.hpp"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include <cstring>

#include "actors/job/timeouts.hpp"
#include "actors/job/trace_codec.hpp"
#include "actors/job/trace_timeline.hpp"
#include "actors/json_answer.hpp"
#include "actors/mailbox.hpp"
#include "actors/messages.hpp"

namespace gpunode::jobs {
namespace {

struct ClockAnswer {
  std::size_t rank = 0;
  Time asked{}, heard{};
  Result<SharedBytes> answer{SharedBytes{}};
};
struct SpansAnswer {
  std::size_t rank = 0;
  Result<SharedBytes> answer{SharedBytes{}};
};

constexpr auto kClockTimeout = std::chrono::seconds(5);
constexpr std::uint32_t kClockQuestions = 9;

struct State {
  static inline const char* name = "trace";
  TraceOptions options;
  std::vector<MemberTrace> members;
  std::size_t answered = 0;
};
using Self = caf::stateful_actor<State>;

void ask_clock(Self* self, std::size_t rank) {
  caf::actor me = self;
  const Clock* clock = self->state.options.clock;
  const Time asked = clock->now();
  self->send(
      self->state.options.calls,
      CallRequest{self->state.options.members[rank], "job.clock", SharedBytes{}, kClockTimeout,
                  [me, clock, rank, asked](Result<SharedBytes> answer) {
                    caf::anon_send(me, ClockAnswer{rank, asked, clock->now(), std::move(answer)});
                  }});
}

void ask_spans(Self* self, std::size_t rank) {
  const TraceOptions& options = self->state.options;
  caf::actor me = self;
  std::string request = options.job.text() + "\n" + std::to_string(options.from_step);
  self->send(options.calls, CallRequest{options.members[rank], "job.spans",
                                        SharedBytes::from(to_bytes(as_bytes(request))),
                                        kSpansTimeout, [me, rank](Result<SharedBytes> answer) {
                                          caf::anon_send(me, SpansAnswer{rank, std::move(answer)});
                                        }});
}

void member_is_through(Self* self) {
  State& state = self->state;
  if (++state.answered < state.members.size()) return;
  bool any = false;
  for (const MemberTrace& member : state.members) any = any || !member.spans.empty();
  if (any)
    state.options.answer(ok_json(
        {{"trace", trace_json(state.options.name, state.members, state.options.from_step)}}));
  else
    state.options.answer(error_json(
        {ErrorCode::unavailable,
         "no member of '" + state.options.name + "' has told what it did" +
             (state.members.front().error.empty() ? std::string(": no step is through yet")
                                                  : ": " + state.members.front().error)}));
  self->quit();
}

void give_up_on(Self* self, std::size_t rank, const Error& error) {
  self->state.members[rank].error = error.message();
  member_is_through(self);
}

void on_clock(Self* self, const ClockAnswer& answer) {
  MemberTrace& member = self->state.members[answer.rank];
  if (!answer.answer) return give_up_on(self, answer.rank, answer.answer.error());
  std::int64_t theirs = 0;
  if (answer.answer->size() != sizeof theirs)
    return give_up_on(self, answer.rank, {ErrorCode::corrupted, "a clock of another length"});
  std::memcpy(&theirs, answer.answer->view.data(), sizeof theirs);
  member.clock.on_answer(answer.asked, answer.heard, Time(Duration(theirs)));
  if (member.clock.answers() < kClockQuestions)
    ask_clock(self, answer.rank);
  else
    ask_spans(self, answer.rank);
}

void on_spans(Self* self, const SpansAnswer& answer) {
  if (!answer.answer) return give_up_on(self, answer.rank, answer.answer.error());
  auto spans = decode_spans(answer.answer->view);
  if (!spans) return give_up_on(self, answer.rank, spans.error());
  self->state.members[answer.rank].spans = std::move(*spans);
  member_is_through(self);
}

caf::behavior behaviour(Self* self, std::shared_ptr<TraceOptions> options) {
  State& state = self->state;
  state.options = std::move(*options);
  expect_known_messages(self);
  auto cluster = state.options.cluster->read();
  for (const NodeId& node : state.options.members)
    state.members.push_back({cluster->name_of(node), node.text(), {}, {}, {}});
  for (std::size_t rank = 0; rank < state.members.size(); ++rank) ask_clock(self, rank);
  if (state.members.empty()) {
    state.options.answer(error_json({ErrorCode::unavailable, "the job has no members yet"}));
    self->quit();
  }
  return {
      [self](const ClockAnswer& answer) { on_clock(self, answer); },
      [self](const SpansAnswer& answer) { on_spans(self, answer); },
  };
}

}  // namespace

void spawn_trace(caf::actor_system& system, TraceOptions options) {
  system.spawn(behaviour, std::make_shared<TraceOptions>(std::move(options)));
}

}  // namespace gpunode::jobs
