#include "actors/job/job_trace.hpp"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include <algorithm>
#include <cstring>

#include "actors/job/timeouts.hpp"
#include "actors/job/trace_codec.hpp"
#include "actors/job/trace_timeline.hpp"
#include "actors/json_answer.hpp"
#include "actors/mailbox.hpp"
#include "actors/messages.hpp"

namespace gpunode::jobs {
namespace {

struct TraceAnswer {
  std::size_t rank = 0;
  Time asked{}, heard{};
  Result<SharedBytes> bytes{SharedBytes{}};
};

constexpr auto kClockTimeout = std::chrono::seconds(5);
constexpr std::uint32_t kClockQuestions = 9;

struct TraceState {
  static inline const char* name = "trace";
  TraceOptions options;
  std::vector<MemberTrace> members;
  std::size_t answered = 0;
};
using TraceActor = caf::stateful_actor<TraceState>;

bool knows_clock(TraceActor* self, std::size_t rank) {
  return self->state.members[rank].clock.answers() == kClockQuestions;
}

// Several times for its clock, then for its spans.
void ask(TraceActor* self, std::size_t rank) {
  const TraceOptions& options = self->state.options;
  const bool spans = knows_clock(self, rank);
  const std::string from = options.job.text() + "\n" + std::to_string(options.from_step);
  self->send(
      options.calls,
      CallRequest{options.members[rank], spans ? "job.spans" : "job.clock",
                  SharedBytes::from(to_bytes(as_bytes(spans ? from : ""))),
                  spans ? kSpansTimeout : kClockTimeout,
                  [me = caf::actor(self), clock = options.clock, rank,
                   asked = options.clock->now()](Result<SharedBytes> bytes) {
                    caf::anon_send(me, TraceAnswer{rank, asked, clock->now(), std::move(bytes)});
                  }});
}

void member_is_through(TraceActor* self) {
  TraceState& state = self->state;
  if (++state.answered < state.members.size()) return;
  if (std::ranges::any_of(state.members, [](const auto& member) { return !member.spans.empty(); }))
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

void give_up_on(TraceActor* self, std::size_t rank, const Error& error) {
  self->state.members[rank].error = error.message();
  member_is_through(self);
}

void on_answer(TraceActor* self, const TraceAnswer& answer) {
  MemberTrace& member = self->state.members[answer.rank];
  if (!answer.bytes) return give_up_on(self, answer.rank, answer.bytes.error());
  if (knows_clock(self, answer.rank)) {
    auto spans = decode_spans(answer.bytes->view);
    if (!spans) return give_up_on(self, answer.rank, spans.error());
    member.spans = std::move(*spans);
    return member_is_through(self);
  }
  std::int64_t theirs = 0;
  if (answer.bytes->size() != sizeof theirs)
    return give_up_on(self, answer.rank, {ErrorCode::corrupted, "a clock of another length"});
  std::memcpy(&theirs, answer.bytes->view.data(), sizeof theirs);
  member.clock.on_answer(answer.asked, answer.heard, Time(Duration(theirs)));
  ask(self, answer.rank);
}

caf::behavior behaviour(TraceActor* self, std::shared_ptr<TraceOptions> options) {
  TraceState& state = self->state;
  state.options = std::move(*options);
  expect_known_messages(self);
  auto cluster = state.options.cluster->read();
  for (const NodeId& node : state.options.members)
    state.members.push_back({cluster->name_of(node), node.text(), {}, {}, {}});
  for (std::size_t rank = 0; rank < state.members.size(); ++rank) ask(self, rank);
  if (state.members.empty()) {
    state.options.answer(error_json({ErrorCode::unavailable, "the job has no members yet"}));
    self->quit();
  }
  return {
      [self](const TraceAnswer& answer) { on_answer(self, answer); },
  };
}

}  // namespace

void spawn_trace(caf::actor_system& system, TraceOptions options) {
  system.spawn(behaviour, std::make_shared<TraceOptions>(std::move(options)));
}

}  // namespace gpunode::jobs
