// Why a view may be voted for: the promises that it follows from. Each is signed by its giver, so a
// proposer can leave one out, and not change it; who is asked for a vote computes the next view from
// them as the proposer did. So nobody is believed for having the turn to propose. Pure.
//
//   level            | its promises                       | what is voted for
//   the last         | no promiser has accepted anything  | follows from their standings
//   each before it   | what has the highest ballot of all | is that, and the next level, whose ballot
//                    | that they have accepted            | no other accepted one is above, proves it
//
// Who accepted something shows the proof by which it did, so nobody makes up what the next proposer
// would have to take over. A level is left out where the one below it proves as much: a proof grows
// with the number of views that rivalled for one number, not with the number of attempts.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/view/signer.hpp"
#include "runtime/view/standing.hpp"

namespace gpunode::view {

// A view that its teller has voted for, and in which ballot.
struct Claim {
  Ballot ballot;
  View view;
  bool operator==(const Claim&) const = default;
};

// A promise as others are shown it.
struct Told {
  NodeId node;
  std::optional<Claim> accepted;
  Standing standing;
  Signature signature{};
  bool operator==(const Told&) const = default;
};

// What a ballot has heard before its proposer asked for votes.
struct Level {
  Ballot ballot;
  std::vector<Told> promises;
  bool operator==(const Level&) const = default;
};

struct Proof {
  std::vector<Level> levels;  // of the newest ballot first
  Hearsay hearsay;            // of the last
  // What it leaves out, and needs for nothing: but who has voted twice may be told by it
  // (double_vote.hpp).
  std::vector<Level> left_out{};
  bool operator==(const Proof&) const = default;
};

struct AcceptedView {
  Ballot ballot;
  View view;
  Proof proof{};  // of that ballot
  bool operator==(const AcceptedView&) const = default;
};

// In memory, bytes.
std::size_t bytes_of(const Told& told);
std::size_t bytes_of(const Proof& proof);
// Of the proofs in one frame or file together: more is not read.
inline constexpr std::size_t kMostProofBytes = 16u << 20;

inline constexpr std::string_view kPromisePurpose = "gpunode view promise 1";
// What a promise for the view after `current` signs.
Bytes promise_bytes(const View& current, const Ballot& ballot, const std::optional<Claim>& accepted,
                    const Standing& standing);
bool is_genuine(const Signer& signer, const View& current, const Ballot& ballot, const Told& told);

// Whether `next` follows from these standings. `fresh`: of a ballot that is under way; what was
// ordered must not have expired.
using Follows = std::function<bool(const std::vector<Promiser>& promisers, const Hearsay& hearsay,
                                   const View& next, bool fresh)>;

// Whether `proof` shows that `next` may be voted for in this ballot, after `current`.
bool proves(const Signer& signer, const View& current, const Ballot& ballot, const View& next,
            const Proof& proof, const Follows& follows);

// Adds to what `proof` leaves out the levels of another one for the same view, within bounds.
void keep_levels(Proof& proof, const Proof& other);

// The proof for taking over what one of the promises of this level claims.
Proof taken_over(Level level, const AcceptedView& accepted);

}  // namespace gpunode::view
