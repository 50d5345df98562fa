// A job's course through a few steps on given devices, by the product's own parts: the fingerprint,
// a trainer, a checkpoint of its state, a learner that takes over from it, the loss on what was held
// out, and the served model. Devices differ in where they keep things and when they do them, never in
// what this shows. Costs about a tenth of a second on a hostile device.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "actors/compute/trainer.hpp"

namespace gpunode::compute {

using collective::SharedFloats;
using collective::TreeNode;

struct Course {
  Digest fingerprint;
  std::vector<Digest> states;
  std::vector<double> losses;
  std::vector<std::vector<float>> sums;
  double held_out = 0;
  std::string answers;  // of the served model
  bool operator==(const Course&) const = default;
};

class TrainingCourse {
 public:
  static constexpr std::uint64_t kSteps = 3;
  using Devices = std::vector<NodeDevice*>;

  // A tiny model: "gpt", "llama", over letters, or "resnet", over rows; or "small-gpt", whose state
  // has more than a megabyte.
  TrainingCourse(const std::string& kind, std::uint32_t slices, const std::string& mode = "exact",
                 Precision precision = Precision::fp32);

  Result<std::unique_ptr<Trainer>> open_trainer(const Devices& devices, int workers);
  struct How {
    int workers = 1;
    bool speculates = false;
  };
  // Fails with what anything on the way fails with.
  Result<Course> take(const Devices& devices, const How& how);
  Result<Course> take(ops::Backend& backend, const How& how) {
    NodeDevice device("device", backend);
    return take(Devices{&device}, how);
  }

  // A member that computes nothing, as where there are more members than slices: it is told each total,
  // which another one has computed. States and losses only.
  Result<Course> follow(const Devices& devices, const How& how);

  // Everything that is asked of the trainer is computed and told. Adds up what it told.
  Result<void> compute(Trainer& trainer, const Devices& devices, std::vector<float>& total,
                       std::vector<std::vector<float>>& sums);
  // What a total is told of early, part by part.
  Result<void> speculate(Trainer& trainer, const SharedFloats& total);
  // Says to devices that can tell that the host reads these bytes now.
  static Result<void> host_reads(const Devices& devices, ByteView bytes);

  std::vector<TreeNode> nodes;  // what is asked of the trainer: all slices
  bool stays = false;           // sums come to the host only when the course reads them
  // Called in mid-step, from any thread, with what was told so far of a step.
  std::function<void(Trainer& trainer, const SumRange& range)> on_told;
  job::JobSpec spec;
  std::uint64_t slice_budget_bytes = Trainer::kSliceBudgetBytes;  // little: few slices at once
  const Clock* clock = &system_clock_;

 private:
  friend class CourseTest;
  Result<void> step(Trainer& trainer, const Devices& devices, const How& how, Course& course);
  Result<void> apply(Trainer& trainer, const SharedFloats& total, bool speculates, Course& course);
  // The state of a checkpoint that was written and read; `folder` is where it is.
  Result<SharedBytes> through_checkpoint(Trainer& trainer, const Devices& devices,
                                         storage::FileSystem& files, storage::Path& folder);
  Result<std::string> serve(ops::Backend& backend, const storage::FileSystem& files,
                            const storage::Path& folder) const;

  SystemClock system_clock_;
  std::shared_ptr<const model::Model> model_;
  std::shared_ptr<const dataset::Dataset> data_;
};

}  // namespace gpunode::compute
