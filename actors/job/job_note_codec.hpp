// What nodes tell each other about jobs outside the job's own protocol (schemas/jobs.fbs).
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "actors/job/job_phase.hpp"
#include "actors/job/start_vote.hpp"
#include "runtime/base/bytes.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::jobs {

// What a node that can take part in a job would bring.
struct Fitness {
  Bytes data_digest;
  std::uint64_t data_bytes = 0;
  std::uint64_t sample_count = 0;
  std::string fingerprint;
  std::string fingerprint_text;
  std::string version;       // of gpunode
  std::string model_digest;  // of the model's settings, parameters and initial weights
  // Not compared with others:
  std::uint64_t memory_needed_bytes = 0, memory_available_bytes = 0;  // 0: unknown
  std::uint64_t site = 0;                                             // see collective::StepTimes
};
// A member's hint about a job, in its own keyspace of the directory under "job/<id>".
struct JobHint {
  std::string name, reason;
  JobPhase phase = JobPhase::preparing;
  std::uint64_t step = 0, steps = 0, view_id = 0;
  std::uint32_t members = 0, wanted = 0;
  bool ended = false;
  std::vector<std::string> labels;
  double loss = 0;             // 0, which is not written: unknown
  std::int64_t submitted = 0;  // as in the job's manifest, as the next two
  NodeId submitter;
  std::string waited_as;
  Bytes removal = {};       // of one that is removed: the signed order
  bool has_result = false;  // it is finished, and its result is on this node's disk
};
// A node that takes no part in a job, and why; the job board hands it to the job's actor.
struct Refusal {
  NodeId node;
  std::string reason;
};
struct JobRefusals {
  JobId job;
  std::vector<Refusal> refused;
};
// So many nodes hold a job in the queue at most.
inline constexpr std::size_t kMostHolders = 5;

// A job in the queue. As it comes there: its draft as vote.manifest, and who holds it. What its
// holders are asked about its start: the ballot as vote.promised, and the manifest that is to be
// accepted. Their answer: the vote. On a holder's disk: vote and holders.
struct QueueNote {
  JobId job;
  StartVote vote;
  std::vector<NodeId> holders;
};
using JobNote = std::variant<Fitness, JobHint, JobRefusals, QueueNote>;

// Of refusals the first 32, with reasons cut to 400 bytes.
Bytes encode(const JobNote& note);
// Fails with corrupted; never throws.
Result<JobNote> decode_note(ByteView bytes);

}  // namespace gpunode::jobs
