// JobSpec: what a job is, as every member knows it. Read from a job file once, sent to the
// candidates as a manifest, kept on their disks, never changed. The runtime does not understand the
// model's settings; it carries them.
//
// Everything that can change the bits of the result stands in here, and nothing else does.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/ids.hpp"
#include "runtime/base/precision.hpp"
#include "runtime/base/result.hpp"
#include "runtime/collective/tree.hpp"
#include "runtime/job/exchange_mode.hpp"

namespace gpunode::job {

struct DataSpec {
  std::string path;  // a file or a folder; or `set`
  // "text": bytes. "tokens": ids of tokens as whole numbers, little-endian, of token_bytes each.
  // "table": numbers, a sample a line, its label last.
  std::string format = "text";
  std::uint32_t token_bytes = 2;     // or 4, for vocabularies above 65536
  double validation_fraction = 0.1;  // the share that is never trained on, drawn over all of it
  // A file or folder of the same format to validate on; all of `path` is trained on then.
  std::string validation_path;
  // In their place: names under which each node's owner offers the data. A path is read at the
  // submitter's node alone.
  std::string set, validation_set;
  bool has_validation() const { return !validation_path.empty() || !validation_set.empty(); }
  // Of the data: nothing where a set to validate on is given.
  double held_out_fraction() const { return has_validation() ? 0 : validation_fraction; }
  // Where the data is, for people.
  std::string text() const { return set.empty() ? path : "data set '" + set + "'"; }
};

struct TrainSpec {
  std::uint64_t seed = 1;
  std::uint64_t steps = 1000;
  std::uint32_t batch = 12;         // samples a step
  std::uint32_t slices = 4;         // G, the units of computed gradient
  std::vector<std::uint32_t> tree;  // radices; empty: the default for `slices`
  double learning_rate = 1e-3;      // peak, after warm-up
  double min_learning_rate = 1e-4;  // where the cosine ends, at the last step
  std::uint64_t warmup_steps = 100;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  double clip = 1.0;  // largest norm of the gradient; 0: no clipping
  // Of matrix products' factors. bf16: faster where the processor has instructions for it, and
  // noisier; weights, moments and sums stay fp32.
  Precision precision = Precision::fp32;
};

struct CheckpointSpec {
  std::uint64_t every = 100;  // steps between checkpoints; the last step is always one; 0: only it
  std::uint32_t keep = 3;     // newest ones kept
};

struct ExchangeSpec {
  ExchangeMode mode = ExchangeMode::exact;
  // Of mode hierarchical: what is one site. "machine", or the key of a label whose value it is.
  std::string group_by = "machine";
  // "auto": the sums of mode exact go from device to device where the members' GPUs can reach each
  // other; "off": always over the host's links. The bits are the same.
  std::string device_link = "auto";
  double density = 0.01;  // share of the values that mode topk sends; more: nearer to exact
  // Of mode local only. A step of the job is then a round, and train.warmup_steps counts inner
  // ones.
  std::uint32_t inner_steps = 50;  // that a member does alone; more: fewer bytes, coarser training
  ExchangeMode form = ExchangeMode::int8;  // in which the changes of weights travel
  double outer_rate = 0.7;                 // how far the members' mean change is followed
  double outer_momentum = 0.9;
  // 1: a round's changes travel while the first half of the next round is computed; what the others
  // changed is added to it then. 0: the next round waits for them.
  std::uint32_t rounds_ahead = 0;
};

struct JobSpec {
  std::string name;
  std::uint32_t nodes = 1;      // wanted
  std::uint32_t min_nodes = 1;  // enough to go on
  // "continue": whoever is left goes on when no quorum of the last view answers. Two parts may then
  // compute apart, and the work of one is given up when they meet. "wait" never lets that happen.
  std::string on_lost_quorum = "wait";
  std::vector<std::string> labels;
  DataSpec data;
  std::string model_kind = "gpt";
  std::map<std::string, std::string> model_settings;
  // A file or folder whose weights are those before the first step, the same on every member, for
  // as long as the job runs; its settings stand in for those that are absent. Empty: drawn by seed.
  std::string model_start;
  std::string model_start_set;  // in its place: the name under which each node offers it
  bool has_start() const { return !model_start.empty() || !model_start_set.empty(); }
  TrainSpec train;
  CheckpointSpec checkpoint;
  ExchangeSpec exchange;
  // Steps of the data order that a step of the job consumes.
  std::uint64_t inner_steps() const {
    return exchange.mode == ExchangeMode::local ? exchange.inner_steps : 1;
  }
  std::string bulk = "sealed";  // or "plain": trusts all who can read or inject on that network

  // Filled in when the job is submitted.
  std::vector<std::byte> data_digest;  // SHA-256 over names, sizes and contents
  std::uint64_t data_bytes = 0;
  std::uint64_t sample_count = 0;
  std::vector<NodeId> candidates;  // acceptors of view 0
  std::string fingerprint;         // compute fingerprint that every member must show
  std::string fingerprint_text;    // what computed it, for people
  std::string version;             // of gpunode that every member started with
  std::string model_digest;        // of the model's settings, parameters and initial weights
  std::int64_t submitted = 0;      // microseconds since 1970, by the submitter's clock
  NodeId submitter;
  std::string waited_as;  // the id that it had in the queue; empty: it did not wait
  Bytes owner_signature;  // of the submitter, over owned_bytes()
};

// The keys of a job file by section ("", "data", "model", "train", "checkpoint", "exchange"); the
// model has keys of its own besides.
std::vector<std::string> known_keys(const std::string& section);

// What a person is told of the keys of a job file, from the table that reads them.
struct SettingText {
  std::string key;       // "train.steps"
  std::string type;      // of the value: text, number, whole number, list of ...
  std::string fallback;  // the value of a job that does not say; empty: none
  std::string text;
};
std::vector<SettingText> setting_texts();

// One setting, by its job-file key "train.steps". Fails with invalid_argument, naming the nearest
// known key, or what the value must look like.
Result<void> set(JobSpec& spec, const std::string& key, const std::string& value);

// What can be said without looking at the machine: ranges, tree against slices, nodes.
Result<void> validate(const JobSpec& spec);

// The tree along which a validated job's slices are summed.
collective::Tree tree_of(const TrainSpec& train);

// Manifest bytes, the same for equal specs; decode never trusts its input.
Bytes encode(const JobSpec& spec);
Result<JobSpec> decode(ByteView manifest);
JobId job_id(ByteView manifest);

// What the owner signs: all that it wished for, without what is found out as the job starts.
Bytes owned_bytes(const JobSpec& spec);

}  // namespace gpunode::job
