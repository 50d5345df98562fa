// What each history of a simulated job must come to, bit for bit: a tree, as every rollback and
// every split begins a history of its own from a state of an earlier one. Gradients carry a salt
// that is the history's, so two histories differ in every bit from their first own step on, and
// whoever mixes them up is found out in exact mode, too. The history that begins the job has no
// salt: an undisturbed run gives what one node alone gives (truth_of).
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "tests/sim/history.hpp"
#include "tests/sim/job_model.hpp"

namespace gpunode::sim {

class Histories {
 public:
  Histories(const JobModel& model, const HistoryId& first);

  // A split keeps what its members have computed of the step that they resume, so that step
  // still carries the salt of the history before; after a rollback nothing may be kept.
  void begin(const HistoryId& id, const HistoryId& parent, std::uint64_t base_step,
             bool from_checkpoint);
  bool knows(const HistoryId& id) const { return all_.contains(id); }
  // Of the gradients of a step.
  std::uint64_t salt(const HistoryId& id, std::uint64_t step) const;
  // After a step; none: not known, as it begins from a checkpoint that nobody has restored yet.
  std::optional<Digest> state(const HistoryId& id, std::uint64_t step);
  std::optional<Digest> sum(const HistoryId& id, std::uint64_t step);
  // A member begins the history from this state: whether it may. The first one settles it; it must
  // be a state that some history came to at that step.
  bool begins_from(const HistoryId& id, const Digest& state);
  // Whether any history ends with it.
  bool is_an_end(const Digest& state);
  std::size_t count() const { return all_.size(); }

 private:
  struct History {
    HistoryId parent{};
    std::uint64_t base_step = 0;
    bool from_checkpoint = false;
    std::uint64_t salt = 0;
    bool settled = false;
    std::vector<float> values;  // after base_step + states.size() - 1
    std::vector<Digest> states, sums;
  };
  bool settle(History& history);
  void advance(const HistoryId& id, History& history, std::uint64_t step);

  const JobModel& model_;
  HistoryId first_;
  std::map<HistoryId, History> all_;
  std::map<std::pair<std::uint64_t, Digest>, std::vector<float>> values_;  // by step and digest
};

}  // namespace gpunode::sim
