// Where requests for rows come to a model that tells classes of rows (row_batch.hpp says which are answered
// together). Who comes while nobody computes computes itself, where that is quick and on the processor, so that
// nothing is woken for it; the others are answered by the model's thread, all that wait at once: who asks may
// be a thread of the link, which a device that hangs must not hold. Each is answered once.
// Owned by the model's actor and whoever asks; any thread.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "actors/inference/infer_codec.hpp"
#include "actors/inference/model_figures.hpp"
#include "actors/inference/row_batch.hpp"
#include "runtime/base/clock.hpp"

namespace gpunode::inference {

class ServedModel;

class RowDesk {
 public:
  using Done = std::function<void(Result<InferAnswer>)>;  // on any thread; quick
  // `work` has the model's thread call work(); from any thread, must be quick. Who asks computes itself where
  // that takes no longer than `quick`: what waking a thread and being woken by it takes on a busy machine.
  RowDesk(const Clock& clock, std::function<void()> work,
          Duration quick = std::chrono::microseconds(200))
      : clock_(clock), work_(std::move(work)), quick_(quick) {}

  // From here on rows are answered by this model, which is the desk's owner's.
  void open(ServedModel& model);
  // Not any more, and those that wait are refused. Waits for a pass that is under way.
  void close();
  // The same model, elsewhere; by who holds it.
  void replace(const std::unique_lock<std::mutex>& held, ServedModel& model);
  // The number that answers tell from here on.
  void set_version(std::uint64_t version);
  bool is_open() const { return features_ > 0; }

  // Fails, by `done`, with: invalid_argument (other inputs, or numbers that are no finite ones), timeout,
  // resource_exhausted (RowBatch), device_lost, internal, unavailable (it is not open any more).
  void ask(const InferRequest& request, const std::string& client, Time deadline, Done done);
  // Makes one pass, if anything waits. Whether more does.
  bool work();
  bool is_idle() const;
  Time last_asked() const { return last_asked_; }
  // Nobody computes with the model meanwhile, as it is probed, moved or told something.
  std::unique_lock<std::mutex> hold() { return std::unique_lock(computing_); }

 private:
  struct Waiting {
    std::vector<float> rows, scores;  // (n, features), (n, classes)
    Done done;
    Duration took{};
  };
  struct Ended {
    Done done;
    Result<InferAnswer> answer;
  };
  void warm_up();  // with both locks
  std::vector<Ended> pass();
  Result<std::vector<float>> compute(const RowBatch::Pass& pass, Duration& took);
  void refuse(const Done& done, const Error& why) const;
  static void tell(std::vector<Ended> ended);

  const Clock& clock_;
  const std::function<void()> work_;
  const Duration quick_;
  std::atomic<std::size_t> features_ = 0;
  std::atomic<Time> last_asked_{Time{}};
  std::mutex computing_;  // who has it uses the model; taken before mutex_
  ServedModel* model_ = nullptr;
  mutable std::mutex mutex_;  // over what follows
  std::shared_ptr<ModelFigures> figures_;
  RowBatch batch_;
  std::map<RowBatch::Id, Waiting> waiting_;  // in a pass too
  bool computes_here_ = false;               // who asks may compute
  bool called_ = false;                      // the model's thread, which has not come yet
};

}  // namespace gpunode::inference
