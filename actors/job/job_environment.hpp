// What a job needs of this machine: its data, its model, the device, the memory. Answers whether
// the node is fit for a job, and makes the parts of a member. No mailbox; the slow functions are
// called on threads of their own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/compute/trainer.hpp"
#include "actors/job/job_note_codec.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/dataset/offers.hpp"
#include "runtime/dataset/scan_sum.hpp"
#include "runtime/job/job_spec.hpp"
#include "runtime/security/authority.hpp"
#include "runtime/storage/durable_record.hpp"
#include "runtime/storage/file_system.hpp"

namespace gpunode::jobs {

// Of a job's model.
struct ModelFigures {
  std::string name;  // kind and size
  std::uint64_t parameters = 0;
  std::uint64_t tokens_per_sample = 0;  // predicted ones, at most
  std::uint64_t gradient_bytes = 0;     // of one gradient as the job's exchange mode sends it
  std::uint64_t checkpoint_bytes = 0;   // weights and moments
};

class JobEnvironment {
 public:
  struct Options {
    const compute::DeviceRoster* devices = nullptr;
    storage::FileSystem* files = nullptr;
    const Clock* clock = nullptr;
    int threads = 1;
    storage::Path state;      // the node's state directory
    std::string version;      // of this program
    bool bulk_plain = false;  // the node's owner trusts the network: see NodeConfig
    std::map<std::string, dataset::Offer> data_sets = {};  // that its owner offers, by name
    const security::Authority* authority = nullptr;        // tells which jobs are this node's own
  };
  explicit JobEnvironment(Options options)
      : options_(std::move(options)), offers_({options_.state, options_.data_sets}) {}

  // Slow (reads all data, computes a canned slice). Fails with the cause in a sentence that a
  // person can act on: data that is not offered (which is said before anything is read), missing or
  // unreadable, job too large for this machine, unknown model.
  Result<Fitness> fitness(const job::JobSpec& spec) const;
  // Whether this node would compute the same job as the manifest's: its version, then fitness,
  // compared. Slow.
  Result<void> matches(const job::JobSpec& spec) const;

  // What the model's size means for a step and a checkpoint of the job. Fails with: invalid_argument.
  Result<ModelFigures> figures(const job::JobSpec& spec, const model::Model& model) const;

  // Slow where the job starts from weights in a file.
  Result<std::shared_ptr<const model::Model>> make_model(const job::JobSpec& spec) const;
  Result<compute::Trainer::Options> trainer_options(const job::JobSpec& spec) const;
  // Recomputes by separate code what the job's committed steps were fed. Slow.
  Result<dataset::Proof> prove(const job::JobSpec& spec, std::uint64_t steps) const;

  // <state>/jobs/<id>/
  storage::Path job_folder(const JobId& id) const { return options_.state / "jobs" / id.text(); }
  storage::Path checkpoint_root() const { return options_.state / "checkpoints"; }
  const Options& options() const { return options_; }

 private:
  Result<std::shared_ptr<const model::Model>> started_model(const job::JobSpec& spec) const;
  std::uint64_t memory_needed(const job::JobSpec& spec, const model::Model& model) const;
  std::optional<std::uint64_t> memory_available() const;
  Result<void> check_memory(const job::JobSpec& spec, const model::Model& model) const;
  // Whether this node's owner offers to the job's owner all that the job reads.
  Result<void> check_offered(const job::JobSpec& spec) const;
  Result<dataset::OfferedFiles> opened(const job::JobSpec& spec,
                                       const dataset::NamedFiles& named) const;
  Result<ingest::SliceReader> reader(const job::JobSpec& spec, const model::Model& model) const;

  Options options_;
  dataset::Offers offers_;
};

// A small durable file in a job's folder.
struct JobRecord {
  const char* file;
  storage::RecordFormat format;
};
inline constexpr JobRecord kManifest{"manifest", {{'J', 'O', 'B', 'M'}, 1}};

// The job's manifest in a state directory. Fails with not_found, corrupted, io_error.
Result<job::JobSpec> stored_manifest(storage::FileSystem& files, const storage::Path& state,
                                     const JobId& id);

// A job's report (JSON) with the proof of what it was fed, recomputed from the data by separate
// code: the command's whole answer. `on_differs` is called if the proof says otherwise than what
// the job was fed, with the steps that it is of. Slow.
std::string with_proof(const JobEnvironment& environment, const job::JobSpec& spec,
                       const std::string& report,
                       const std::function<void(std::uint64_t steps)>& on_differs);

}  // namespace gpunode::jobs
