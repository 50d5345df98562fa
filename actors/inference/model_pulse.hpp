// Whether the models of a node get on and answer. Live: a model's thread says so with every pass, and once a
// second where it has nothing to do. Ready: it computed an answer a moment ago, for somebody or, where
// nobody asked, for a probe, which its thread works on between two passes; so many who ask together cost one.
// Thread-safe; costs a lock that nobody else wants.
//
//   begin_loading() -> loading --beat()--> served --forget()--> gone
//                         ^------- moved -----+
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "runtime/base/clock.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::inference {

class ModelPulses {
 public:
  struct Limits {
    Duration fresh = std::chrono::seconds(1);           // so old may be what a model computed last
    Duration answers_within = std::chrono::seconds(2);  // a probe that takes longer failed
  };
  ModelPulses() : ModelPulses(Limits()) {}
  explicit ModelPulses(const Limits& limits) : limits_(limits) {}

  // Of a model of which several are there, as one is loaded to replace another.
  static std::string name_of(const std::string& model, std::uint64_t which) {
    return model + " #" + std::to_string(which);
  }

  // It is being loaded, or moved, which takes its time.
  void begin_loading(const std::string& model);
  // `ask` has its thread compute an answer and tell computed(); from any thread, must be quick.
  void probe_by(const std::string& model, std::function<void()> ask);
  void beat(const std::string& model, Time now);
  // It answered, or could not, and why. Of a model that is gone nothing is kept.
  void computed(const std::string& model, Time now, Result<void> how = {});
  void forget(const std::string& model);

  // No model that is loaded was silent for so long.
  bool are_live(Time now, Duration longest) const;
  // How it fared a moment ago; nothing: it computed nothing since.
  std::optional<Result<void>> known(const std::string& model, Time now) const;
  // All of them compute, but those that are loaded to replace one that does; waits for those that have to
  // be probed, at most answers_within together. Fails with unavailable, naming a model that is being
  // loaded, does not answer, or fails, and how.
  Result<void> readiness(const Clock& clock);

 private:
  struct Pulse {
    bool loading = true;
    Time last{};
    std::function<void()> ask = {};
    std::optional<Time> asked = {};  // a probe, that is not answered yet
    std::optional<Time> computed = {};
    Result<void> how = {};
  };
  bool is_replacing(const std::string& model) const;
  bool is_fresh(const Pulse& pulse, Time now) const;
  static Result<void> told_of(const std::string& model, const Pulse& pulse);

  const Limits limits_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Pulse> all_;
};

}  // namespace gpunode::inference
