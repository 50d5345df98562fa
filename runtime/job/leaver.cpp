#include "runtime/job/leaver.hpp"

#include <algorithm>
#include <utility>

#include "runtime/base/broken_rule.hpp"

namespace gpunode::job {

namespace {
constexpr Duration kReplaced = std::chrono::seconds(5);  // a witness waits for a view without it
constexpr Duration kRetry = std::chrono::milliseconds(1000);
constexpr Duration kAskEvery = std::chrono::milliseconds(50);
// No witness fetches the checkpoint: longer than one clings to an older one that does not come.
constexpr Duration kNoCopy = std::chrono::seconds(7);
constexpr Duration kStoodStill = std::chrono::seconds(2);  // between two ticks
constexpr Duration kSaveTerm =
    std::chrono::seconds(10);  // of the time to leave; at most half of it
}  // namespace

bool Leaver::begin(Duration timeout) {
  const Time last = timeout == kWhenOthersCan ? Time::max() : job_.now + timeout;
  if ((state_ == State::leaves || state_ == State::saves) && by_ <= last) return false;
  state_ = State::leaves;
  by_ = last;
  began_ = ticked_ = job_.now;
  save_from_ = last - std::min(kSaveTerm, timeout / 2);
  tried_.reset();
  told_ = job_.holding = false;
  saving_.reset();
  saved_at_.reset();
  return true;
}

void Leaver::take_back() {
  state_ = State::stays;
  job_.holding = false;
}

void Leaver::on_view(const view::View& before) {
  if (job_.member) {
    if (state_ == State::outside) state_ = State::leaves;  // nobody else was there
    return;
  }
  owes_view_ = before.is_acceptor(job_.self());
  job_.holding = false;
  if (state_ == State::leaves || state_ == State::saves) state_ = State::outside;
}

bool Leaver::is_due() const {
  return state_ == State::leaves && job_.view().members.size() > 1 &&
         (!tried_ || job_.now >= *tried_ + kRetry);
}

bool Leaver::try_now() {
  if (!is_due()) return false;
  tried_ = job_.now;
  return true;
}

Leaver::Ask Leaver::wait(Ask ask, Duration every) {
  if (job_.now < asked_ + every) return Ask::nothing;
  asked_ = job_.now;
  return ask;
}

// Time in which this process stood still was none to save anything in.
void Leaver::give_back_time() {
  const Duration gap = job_.now - std::exchange(ticked_, job_.now);
  if (gap < kStoodStill || by_ == Time::max()) return;
  by_ += gap;
  save_from_ += gap;
}

Leaver::Ask Leaver::on_tick(const Facts& facts, Actions& out) {
  if (state_ == State::stays || state_ == State::left) return Ask::nothing;
  give_back_time();
  if (job_.now >= by_) {
    tell_left("its time to leave is over", out);
    return Ask::nothing;
  }
  return job_.member ? leave_as_member(facts, out) : leave_from_outside(facts, out);
}

Leaver::Ask Leaver::leave_from_outside(const Facts& facts, Actions& out) {
  const view::View& view = job_.view();
  // A witness is replaced by the members; a member of an earlier life has to care itself.
  const bool votes = view.view_id > 0 && view.is_acceptor(job_.self());
  if (votes && !view.is_witness(job_.self())) return Ask::want_change;
  if (votes && !view.stopped && !job_.finished && job_.now < began_ + kReplaced)
    return wait(Ask::tell_it_leaves, kRetry);
  const bool awaited = owes_view_ || job_.gives_base();
  if (!broken("leaves_at_once") && awaited && !facts.others_know)
    return wait(Ask::ask_members, kAskEvery);
  tell_left("", out);
  return Ask::nothing;
}

Leaver::Ask Leaver::leave_as_member(const Facts& facts, Actions& out) {
  if (saving_) {
    if (*saving_ != job_.progress.committed())
      save(out);  // a view has brought one step more
    else if (is_saved(facts))
      tell_left("the checkpoint of step " + std::to_string(*saving_) + " is durable here" +
                    (facts.durable && facts.copies > 0
                         ? " and on " + std::to_string(facts.copies) + " other nodes"
                         : ""),
                out);
    return Ask::nothing;
  }
  const bool alone = job_.view().members.size() == 1;
  if (job_.is_last_step()) {
    // The result is a checkpoint like any other: a lone member does not leave with it in memory.
    // Who is through with that of another view has no state of this one to save.
    const bool saved = job_.through || job_.newest_on_disk().step == job_.progress.committed();
    if (job_.finished && alone && !saved)
      save(out);
    else if (job_.finished)
      tell_left("", out);
    return Ask::nothing;
  }
  const bool last = alone || (tried_ && job_.now >= save_from_);
  if (!last && !facts.stuck) {
    const bool hurries = job_.now + 2 * facts.step_time > by_ || !job_.state_ready;
    return hurries && !job_.is_changing() && try_now() ? Ask::end_view : Ask::nothing;
  }
  if (by_ == Time::max()) return Ask::nothing;  // it goes on until it is not the last
  const bool waits = !facts.stuck && facts.somebody_comes && job_.now < save_from_;
  if (!told_ && !facts.stuck) {
    told_ = true;
    job_.report(
        waits ? "this node is the last that holds the job's state: it leaves when the node on its "
                "way in is ready"
              : "this node is the last that holds the job's state, and nobody is on the way in: it "
                "saves the state and leaves; start it again, or let others join before it leaves, "
                "and the job goes on",
        out);
  }
  if (waits) return Ask::nothing;
  if (broken("last_holder_leaves"))
    tell_left("", out);
  else
    save(out);
  return Ask::nothing;
}

// No step is begun or committed any more: what is saved stays the newest.
void Leaver::save(Actions& out) {
  state_ = State::saves;
  job_.holding = true;
  if (!job_.state_ready || !job_.is_applied()) return;
  const std::uint64_t step = job_.progress.committed();
  saving_ = step;
  if (step > 0 && job_.newest_on_disk().step != step) out.push_back(SaveState{step});
}

// Witnesses go on from what they have: the newest checkpoint is worth the time that is left, as
// long as they get on with fetching it.
bool Leaver::is_saved(const Facts& facts) {
  if (*saving_ > 0 && job_.newest_on_disk().step != *saving_) return false;
  if (!saved_at_) saved_at_ = job_.now;
  if (facts.durable) return true;
  return job_.now >= *saved_at_ + kNoCopy && !facts.copies_read;
}

void Leaver::tell_left(const std::string& why, Actions& out) {
  state_ = State::left;
  job_.holding = job_.member;
  job_.report("leaves the job after step " + std::to_string(job_.progress.committed()) +
                  (why.empty() ? "" : ": " + why),
              out);
  out.push_back(Left{});
}

}  // namespace gpunode::job
