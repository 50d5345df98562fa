#include "actors/job/start_agreement.hpp"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include "actors/job/job_note_codec.hpp"
#include "actors/mailbox.hpp"

namespace gpunode::jobs {
namespace {

constexpr auto kVoteTimeout = std::chrono::seconds(5);

struct Voted {
  bool accepting = false;  // the question that is answered
  Result<SharedBytes> answer{SharedBytes{}};
};
struct AgreementState {
  static inline const char* name = "start agreement";
  StartAgreement agreement;
  bool accepting = false;
  std::size_t given = 0, answered = 0;
  view::Ballot newest;  // of the manifests that were accepted
};
using AgreementActor = caf::stateful_actor<AgreementState>;

void ask(AgreementActor* self) {
  AgreementState& state = self->state;
  state.given = state.answered = 0;
  QueueNote note{state.agreement.waiting, {}, {}};
  note.vote.promised = state.agreement.ballot;
  if (state.accepting) note.vote.manifest = state.agreement.manifest;
  const SharedBytes request = SharedBytes::from(encode(note));
  for (const NodeId& holder : state.agreement.holders)
    self->send(state.agreement.calls,
               CallRequest{holder, state.accepting ? "queue.accept" : "queue.promise", request,
                           kVoteTimeout,
                           [me = caf::actor(self), accepting = state.accepting](auto answer) {
                             caf::anon_send(me, Voted{accepting, std::move(answer)});
                           }});
}

void end(AgreementActor* self, Result<Bytes> result) {
  self->state.agreement.done(std::move(result));
  self->quit();
}

void on_voted(AgreementActor* self, const Voted& voted) {
  AgreementState& state = self->state;
  if (voted.accepting != state.accepting) return;
  ++state.answered;
  const auto note =
      voted.answer ? decode_note(voted.answer->view) : Result<JobNote>(voted.answer.error());
  const auto* vote = note ? std::get_if<QueueNote>(&*note) : nullptr;
  if (vote && vote->vote.promised == state.agreement.ballot) {
    ++state.given;
    if (!state.accepting && vote->vote.accepted > state.newest) {
      state.newest = vote->vote.accepted;
      state.agreement.manifest = vote->vote.manifest;
    }
  }
  const std::size_t all = state.agreement.holders.size();
  if (state.given > all / 2) {
    if (state.accepting) return end(self, std::move(state.agreement.manifest));
    state.accepting = true;
    return ask(self);
  }
  if (state.answered < all) return;
  end(self, Error{ErrorCode::unavailable,
                  "of the " + std::to_string(all) + " nodes that hold it in the queue only " +
                      std::to_string(state.given) +
                      " agree to its start, and more than half must: bring them back, or remove "
                      "the job (`gpunode job rm --force`) and submit it again"});
}

caf::behavior behaviour(AgreementActor* self, std::shared_ptr<StartAgreement> agreement) {
  self->state.agreement = std::move(*agreement);
  expect_known_messages(self);
  if (self->state.agreement.holders.empty())
    end(self, Error{ErrorCode::corrupted, "nobody holds the job in the queue"});
  else
    ask(self);
  return {[self](const Voted& voted) { on_voted(self, voted); }};
}

}  // namespace

void spawn_start_agreement(caf::actor_system& system, StartAgreement agreement) {
  system.spawn(behaviour, std::make_shared<StartAgreement>(std::move(agreement)));
}

}  // namespace gpunode::jobs
