// What people call jobs. A name means the newest job that bears it, by the time at which it was
// submitted; the others are shown, and called, as name~id. An id, or a beginning of it that fits one
// job alone, means that job. Pure; the same to every command and on every node that knows the same
// jobs.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/ids.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::jobs {

struct NamedJob {
  JobId id;
  std::string name;
  std::int64_t submitted = 0;  // microseconds since 1970; 0: not known, and older than any other
  std::string waited_as;       // another id that means it: the one that it had in the queue
  bool at_work = false;        // somewhere: neither over nor stopped
};

// What is to be done with the job that is meant. Orders go to none of several that are at work, and
// what removes is refused wherever a name has several bearers.
enum class Purpose : std::uint8_t { look, order, remove };

class JobNames {
 public:
  // Told again of a job: it is at work if anybody says so.
  void add(const NamedJob& one);
  void forget(const JobId& id) { jobs_.erase(id); }
  // Those that have left the queue are one job with what they became; not these, which have not.
  void forget_started(const std::set<JobId>& distinct = {});
  bool knows(const JobId& id) const { return jobs_.contains(id); }

  // Fails with: not_found; invalid_argument (several fit: all are named, with what tells them
  // apart).
  Result<NamedJob> meant(const std::string& wanted, Purpose purpose) const;

  // As people see it, and may write it: the name, or name~id of one that is not the newest of its
  // name; the beginning of its id for one that is not known.
  std::string shown(const JobId& id) const;

 private:
  // Of this name, newest first.
  std::vector<const NamedJob*> bearers(const std::string& name) const;

  std::map<JobId, NamedJob> jobs_;
};

// The beginning of an id that people are shown.
inline std::string short_text(const JobId& id) {
  return id.text().substr(0, 8);
}

// Nothing unless the text is 32 hexadecimal digits, as JobId::text writes them.
std::optional<JobId> parse_job_id(const std::string& text);

}  // namespace gpunode::jobs
