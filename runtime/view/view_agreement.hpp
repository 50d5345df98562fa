// Agreement on the next view: one instance of single-decree Paxos among the acceptors of the
// current view. Pure; owned by a JobCore. Costs one small fsync a promise and one a vote.
//
//   state     | prepare (higher ballot)  | accept (ballot >= promised) | silence
//   open      | freeze, persist, PROMISE | freeze, persist, ACCEPTED   | -
//   frozen    | persist, PROMISE         | persist, ACCEPTED           | propose after the delay
//   proposing | yields to a higher one   | yields to a higher one      | retry, higher ballot
//
//   open also: NOTE of a floor | persist, NOTED; frozen and proposing ignore it
//
//   before it proposes, a node makes sure that a quorum hears it and is heard by it (PROBE, ECHO)
// Members that do not vote (learners) are asked too: they freeze and tell where they stand, but
// count for no quorum. Lower ballots are answered with REFUSE. A decided view ends the instance:
// adopt() starts the next. No promise and no vote leaves this node before the bytes behind it are
// durable. A promise is signed, and who asks for votes shows those that its view follows from
// (view_proof.hpp). A vote is signed: those of a quorum prove the view to whoever it is told
// (view_chain.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/result.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/view/view.hpp"
#include "runtime/view/view_chain.hpp"
#include "runtime/view/view_proof.hpp"

namespace gpunode::view {

// Does a quorum hear me, and do I hear it? Binds nobody.
struct Probe {
  std::uint64_t nonce = 0;
};
struct Echo {
  std::uint64_t nonce = 0;
};
struct Prepare {
  Ballot ballot;
  std::string why{};  // the proposer's last ballot of this view led to none; for people
};
struct Promise {
  Ballot ballot;
  std::optional<AcceptedView> accepted;
  Standing standing;
  Signature signature{};  // of promise_bytes
  std::optional<Claim> claim() const;
};
struct Refuse {
  Ballot promised;
};
struct Accept {
  Ballot ballot;
  View view;
  Proof proof{};
};
struct Accepted {
  Ballot ballot;
  Signature signature{};
};
// This checkpoint is on enough disks: no later view may go behind it. Only who has promised nothing
// in this view notes it, so every quorum that decides the next view knows what a quorum has noted.
struct NoteFloor {
  Floor floor;
};
// It is on the acceptor's disk.
struct FloorNoted {
  CheckpointName name;
};
using VoteMessage =
    std::variant<Prepare, Promise, Refuse, Accept, Accepted, Probe, Echo, NoteFloor, FloorNoted>;

// What an acceptor's disk holds: the newest view it knows and its votes on the next one.
struct Votes {
  View view;
  ViewChain chain;  // that ends with `view`; empty: it is view 0
  Ballot promised;
  std::optional<AcceptedView> accepted;
  Floor floor;  // newest noted
};
Bytes encode_votes(const Votes& votes);
Result<Votes> decode_votes(ByteView bytes);  // fails with corrupted

struct VoteTimings {
  Duration rank_delay = std::chrono::milliseconds(50);  // per live acceptor of lower rank
  Duration jitter = std::chrono::milliseconds(30);
  Duration grace = std::chrono::milliseconds(1000);          // for promisers that nobody suspects
  Duration forming_grace = std::chrono::milliseconds(2000);  // the same, for view 1
  Duration retry = std::chrono::milliseconds(500);           // first retry of a ballot; doubles
  Duration retry_max = std::chrono::milliseconds(4000);
  Duration probe_every = std::chrono::milliseconds(200);  // repeat of PROBE
  Duration echo_fresh = std::chrono::milliseconds(1000);  // an ECHO counts for that long
  Duration note_every = std::chrono::milliseconds(500);   // repeat of NOTE
};

class ViewAgreement {
 public:
  using Promiser = view::Promiser;
  // The next view that follows from these promises, whose lease_left is what is left by now, or the
  // reason why there is none yet. `forced`: a person gave up on the rest; whoever promised goes on
  // as a new generation.
  using Compose = std::function<Result<View>(const std::vector<Promiser>& promisers,
                                             const Hearsay& hearsay, bool forced)>;
  // What this node goes by besides these promises.
  using Hear = std::function<Hearsay(const std::vector<Promiser>& promisers)>;
  // Stops the data plane for good in this view and says where it stands. Called at every promise.
  using Freeze = std::function<Standing()>;

  struct Options {
    NodeId self;
    Votes votes;  // of disk, or view 0 and no votes
    Trust trust;
    VoteTimings timings;
    std::uint64_t seed = 0;
    Compose compose;
    Hear hear;
    Follows follows;  // what others have composed
    Freeze freeze;
    std::function<bool(const NodeId&)> suspected;
  };

  struct Effects {
    std::vector<std::pair<NodeId, VoteMessage>> sends;
    std::vector<std::pair<std::uint64_t, Bytes>> persists;  // token, bytes; in order
    std::optional<DecidedView> decided;                     // by this proposer, just now
    std::optional<Floor> noted;  // what this node asked for: a quorum has it on disk
  };

  explicit ViewAgreement(Options options);

  const View& view() const { return votes_.view; }
  bool frozen() const { return frozen_; }  // has promised or voted in the current instance
  bool wanted() const { return wanted_at_.has_value(); }  // a change is under way
  const std::string& waiting_reason() const { return waiting_reason_; }
  Time wanted_since() const { return wanted_since_; }
  // Acceptors that neither echo nor promise while this node tries to propose.
  std::vector<NodeId> missing() const;
  const Votes& votes() const { return votes_; }
  // Promises that nobody gave as they came here, and proposals that follow from none.
  std::uint64_t unproven() const { return unproven_; }

  // Asks for a view change; this node proposes when its turn comes and nobody was faster.
  void want_change(Time now);
  // `peer` is known to have received what this node sent at `sent`: as good as its ECHO.
  void heard_by(const NodeId& peer, Time sent);
  // Asks all acceptors to note this; Effects::noted tells once a quorum has. Void with the next
  // view.
  void note_floor(Time now, Floor floor, Effects& out);
  const Floor& floor() const { return votes_.floor; }
  // Takes whoever answers within the grace into a new generation, without a quorum. What others
  // did meanwhile is given up: a person's decision, never this node's own. It need have no part in
  // the view: all that had one may be lost.
  void force(Time now, Effects& out);
  void on_message(Time now, const NodeId& from, const VoteMessage& message, Effects& out);
  void on_tick(Time now, Effects& out);
  void on_persisted(Time now, std::uint64_t token, Effects& out);
  // A decided view became known that goes before the one of now: its instance is over. `chain`,
  // which is proven, ends with it.
  void adopt(ViewChain chain, Effects& out);
  // The chain of this node with the view that it has just decided.
  ViewChain with(DecidedView decided) const;
  const Trust& trust() const { return options_.trust; }
  Proven prove(const ViewChain& told, bool astray) const {
    return view::prove(options_.trust, votes_.chain, told, astray);
  }

 private:
  struct Received {
    Promise promise;
    Time at;
  };
  struct Proposal {
    Ballot ballot;
    Time started;
    Time retry_at;
    std::map<NodeId, Received> promises;
    std::optional<View> value;  // set: the second phase runs
    Proof proof;                // of that
    std::map<NodeId, Signature> accepted_by;
    bool forced = false;
  };
  // Who hears this node and is heard by it, found out before it proposes.
  struct Hearing {
    std::vector<std::pair<std::uint64_t, Time>> asked;  // nonce, when; the last second's
    std::map<NodeId, Time> echoed;                      // when its echo was asked for
  };

  // A floor on its way to a quorum.
  struct Noting {
    Floor floor;
    std::set<NodeId> noted_by;
    Time asked{};
  };

  void ask_to_note(Time now, Effects& out);
  void on_note(Time now, const NodeId& from, const NoteFloor& message, Effects& out);
  void on_noted(const NodeId& from, const FloorNoted& message, Effects& out);
  bool is_acceptor() const;
  bool is_asked() const;
  bool has_part(const NodeId& node) const;
  bool follows(const Ballot& ballot);
  std::vector<NodeId> asked() const;
  Duration grace() const;
  Duration turn_delay();
  Standing standing();
  void start_ballot(Time now, Effects& out, bool forced = false);
  void probe(Time now, Effects& out);
  void on_echo(Time now, const NodeId& from, const Echo& message, Effects& out);
  bool is_heard(Time now) const;
  void try_value(Time now, Effects& out);
  bool choose_value(Time now, const std::vector<NodeId>& promised);
  bool is_genuine(const NodeId& from, const Promise& message) const;
  bool proves(const Ballot& ballot, const View& next, const Proof& proof) const;
  void try_decide(Effects& out);
  void on_prepare(Time now, const NodeId& from, const Prepare& message, Effects& out);
  void on_promise(Time now, const NodeId& from, const Promise& message, Effects& out);
  void on_refuse(Time now, const NodeId& from, const Refuse& message);
  void on_accept(Time now, const NodeId& from, const Accept& message, Effects& out);
  void on_accepted(const NodeId& from, const Accepted& message, Effects& out);
  DecidedView sealed(std::vector<Seal> seals) const;
  void yield_to(Time now, const Ballot& ballot);
  void persist_then(const NodeId& to, VoteMessage message, Time now, Effects& out);
  void deliver(Time now, const NodeId& to, VoteMessage message, Effects& out);
  bool quorum(std::span<const NodeId> yes) const;
  std::string voters() const;  // by name
  std::string lack_of_quorum() const;

  Options options_;
  Votes votes_;
  Rng rng_;
  bool frozen_ = false;
  std::optional<Time> wanted_at_;     // when to propose
  std::optional<NodeId> yielded_to_;  // whose ballot is waited for
  Time wanted_since_{};
  std::uint64_t highest_round_ = 0;
  std::uint32_t attempts_ = 0;
  std::uint64_t unproven_ = 0;
  std::optional<Proposal> proposal_;
  Hearing hearing_;
  std::optional<Noting> noting_;
  std::string waiting_reason_;
  std::string why_not_;  // no view followed from the promises, when a ballot last had a quorum
  std::uint64_t next_token_ = 1;
  struct Deferred {
    std::uint64_t token;
    NodeId to;
    VoteMessage message;
  };
  std::vector<Deferred> deferred_;
};

}  // namespace gpunode::view
