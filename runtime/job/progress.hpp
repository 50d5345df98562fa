// Where the state on this node stands: the newest committed step, the newest that is applied, and
// what names both. Owned by a JobContext.
//
//   at              | commit   | applied   | begin_load | load
//   applied         | applying | -         | loading    | applied
//   applying        | -        | applied   | loading    | applied
//   loading         | -        | loading   | -          | applied
#pragma once

#include "runtime/job/job_actions.hpp"

namespace gpunode::job {

class Progress {
 public:
  // The state before step 1.
  explicit Progress(const Digest& initial_state) : state_digest_(initial_state) {}

  void commit(const Digest& result, const collective::DataFingerprint& data) {
    ++committed_;
    running_ += data;
    result_digest_ = result;
  }
  void apply(const Digest& state) {
    applied_ = committed_;
    state_digest_ = state;
  }
  void begin_load() { loading_ = true; }
  void end_load() { loading_ = false; }
  void load(const Checkpoint& state, const Digest& result) {
    committed_ = applied_ = state.step;
    state_digest_ = state.state_digest;
    result_digest_ = result;
    running_ = state.running;
    history_ = state.history;
    loading_ = false;
  }
  void follow(const HistoryId& history) { history_ = history; }  // which has come from the old one
  void forget_result() { result_digest_ = {}; }

  std::uint64_t committed() const { return committed_; }
  std::uint64_t applied() const { return applied_; }     // less than that while Apply is under way
  const HistoryId& history() const { return history_; }  // of the state here
  const Digest& state_digest() const { return state_digest_; }  // after applied()
  // Of the sum of step committed(); zero: unknown.
  const Digest& result_digest() const { return result_digest_; }
  const collective::DataFingerprint& running() const {
    return running_;
  }                                             // over steps 1..committed
  bool is_loading() const { return loading_; }  // the driver puts another state in its place

 private:
  std::uint64_t committed_ = 0;
  std::uint64_t applied_ = 0;
  HistoryId history_;
  Digest state_digest_;
  Digest result_digest_;
  collective::DataFingerprint running_;
  bool loading_ = false;
};

}  // namespace gpunode::job
