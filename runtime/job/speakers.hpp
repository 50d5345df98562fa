// Who may say what in a job, in one table: a member of the cluster that has no part in a job moves
// nothing in it. Whatever else is said is counted and not heard.
#pragma once

#include <array>

#include "runtime/job/job_message.hpp"

namespace gpunode::job {

// Each is one of those before it, too. Where a message was sent in another view than this node's,
// nobody here knows who has a part in that one: there an asker may say what is for those with a part.
enum class Speaker : std::uint8_t {
  anyone,   // of the cluster: what is a question, an offer, or carries its own proof
  asker,    // asks to come in, or is a partner
  partner,  // had a part in a view that is known here, or is named to give a state
  part,     // computes or votes in the view
  member,   // computes in it
  voter     // is an acceptor of it
};

inline constexpr std::array kSpeakers{
    Speaker::member,   // StepMessage
    Speaker::part,     // Vote: see below
    Speaker::part,     // FreezeHint
    Speaker::anyone,   // ViewNotice: proves itself
    Speaker::anyone,   // ViewAsk
    Speaker::anyone,   // JoinAsk
    Speaker::member,   // JoinRefused
    Speaker::partner,  // StepStatus
    Speaker::asker,    // StateAsk
    Speaker::partner,  // StateMeta
    Speaker::asker,    // StateRead
    Speaker::partner,  // StatePart
    Speaker::anyone,   // WitnessOffer
    Speaker::asker,    // ResultRead
    Speaker::partner,  // ResultPart
    Speaker::member,   // LeaseAsk
    Speaker::voter,    // LeaseGrant
    Speaker::member,   // GroupInvite
};
static_assert(kSpeakers.size() == std::variant_size_v<JobBody>);

inline constexpr std::array kVoteSpeakers{
    Speaker::part,    // Prepare
    Speaker::part,    // Promise
    Speaker::part,    // Refuse
    Speaker::voter,   // Accept
    Speaker::voter,   // Accepted
    Speaker::part,    // Probe
    Speaker::voter,   // Echo
    Speaker::member,  // NoteFloor
    Speaker::voter,   // FloorNoted
};
static_assert(kVoteSpeakers.size() == std::variant_size_v<view::VoteMessage>);

inline Speaker speaker_of(const JobBody& body) {
  const auto* vote = std::get_if<Vote>(&body);
  return vote ? kVoteSpeakers[vote->message.index()] : kSpeakers[body.index()];
}

}  // namespace gpunode::job
