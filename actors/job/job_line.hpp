// How a job looks from outside: its line in `gpunode jobs`, its figures in the metrics, its id as
// text. Pure functions of the job board.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

#include "actors/cluster_state.hpp"
#include "actors/job/job_actor.hpp"
#include "actors/job/job_names.hpp"
#include "actors/job/job_note_codec.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/telemetry/registry.hpp"

namespace gpunode::jobs {

nlohmann::json as_of_json(const AsOf& as_of);
nlohmann::json job_line(const JobId& id, const std::string& name, const JobProgress& progress,
                        const ClusterSnapshot& cluster);

// When it was submitted and by whom, for a line; nothing where that is not known.
void add_origin(nlohmann::json& line, std::int64_t submitted, const NodeId& submitter,
                const ClusterSnapshot& cluster);

// Where a job stood when it ended, by its last report (JSON); as a line, and for those that ask on.
nlohmann::json ended_line(const std::string& outcome);
JobProgress progress_of(const JobId& id, const std::string& outcome);

// What another node tells of a job; it may be dead by now.
struct HeardHint {
  std::string id;  // of the job, as text
  NodeId from;
  JobHint hint;
};
std::vector<HeardHint> hints_of_others(const ClusterSnapshot& cluster);

// Of these what is told of one job.
std::vector<HeardHint> hints_of(const ClusterSnapshot& cluster, const JobId& id);
// What every line of a job tells that another node has told of.
nlohmann::json hint_line(const std::string& id, const JobHint& hint,
                         const ClusterSnapshot& cluster);
// Whether by this hint its node has the job's result on its disk.
bool has_result(const JobHint& hint);
// Where the job is finished and nobody that tells of it has its result any more, as it was removed
// there: their names, in a row. Else empty.
std::string result_removed_on(const std::vector<HeardHint>& hints, const ClusterSnapshot& cluster);
// A node that answers and has failed in the job, and why: the job may wait for what it has. Else empty.
std::string failed_text(const std::vector<HeardHint>& hints, const ClusterSnapshot& cluster);
// How the job stands where nodes that answer go on with it, by who is furthest, for one of which the
// part here has failed: phase, step, nodes. Null: nowhere.
nlohmann::json elsewhere_json(const std::vector<HeardHint>& hints, const ClusterSnapshot& cluster);
// Whether a line of the list is of this job.
bool is_listed(const nlohmann::json& list, const std::string& id);

// A text of the core for people: nodes by name where it is known here, not by the beginning of
// their id, and commands with the job's name.
std::string in_words(std::string text, const ClusterSnapshot& cluster, const std::string& job);

// Appends the jobs that only other nodes run, as the directory tells of them.
void add_jobs_of_others(nlohmann::json& list, const ClusterSnapshot& cluster);

// Why who lacks the result of a job that is finished does not get it from this node.
inline constexpr const char* kNoResult = "its result is not on this node's disk";

// A job that is finished has made all its steps, also at a node that only voted in it and counted
// none.
void tell_of_the_end(nlohmann::json& line);

// Series of a job carry its id too, as two jobs may have one name; those of one that is over stay,
// those of one that is removed are not shown any more.
void record_metrics(telemetry::Registry& metrics, const std::string& name,
                    const JobProgress& progress);

// Of one life of a job's actor, which counts from 0 on.
void count_damaged(telemetry::Registry& metrics, const std::string& name,
                   const JobProgress& progress, std::uint64_t before);

// The site that a node is in for the sums of a job: equal for equal values of its label of that
// key, or for equal machines. 0, which is like no other: it has no such label, or no known machine.
std::uint64_t site_of(const std::string& group_by, const std::vector<std::string>& labels,
                      const std::string& machine);
// Whether a node with the labels `own` has all that a job wants.
bool labels_fit(const std::vector<std::string>& wanted, const std::vector<std::string>& own);

}  // namespace gpunode::jobs
