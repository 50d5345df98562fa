#include "actors/job/job_names.hpp"

#include <algorithm>
#include <tuple>

namespace gpunode::jobs {
namespace {

Error several(const std::string& wanted, const std::vector<const NamedJob*>& jobs) {
  constexpr std::size_t kNamed = 8;
  std::string text = "'" + wanted + "' fits several jobs: ";
  for (std::size_t i = 0; i < std::min(jobs.size(), kNamed); ++i)
    text += (i == 0 ? "" : ", ") + jobs[i]->name + "~" + short_text(jobs[i]->id);
  if (jobs.size() > kNamed) text += " and " + std::to_string(jobs.size() - kNamed) + " more";
  return {ErrorCode::invalid_argument, text + "; say which (`gpunode jobs` lists them)"};
}

bool begins(const NamedJob& job, const std::string& prefix) {
  return job.id.text().starts_with(prefix) || job.waited_as.starts_with(prefix);
}

}  // namespace

void JobNames::add(const NamedJob& one) {
  NamedJob& known = jobs_.try_emplace(one.id, one).first->second;
  known.at_work |= one.at_work;
  known.submitted = std::max(known.submitted, one.submitted);
}

void JobNames::forget_started(const std::set<JobId>& distinct) {
  std::vector<JobId> started;
  for (const auto& [id, job] : jobs_)
    if (const auto before = parse_job_id(job.waited_as); before && !distinct.contains(*before))
      started.push_back(*before);
  for (const JobId& id : started) jobs_.erase(id);
}

std::vector<const NamedJob*> JobNames::bearers(const std::string& name) const {
  std::vector<const NamedJob*> found;
  for (const auto& [id, job] : jobs_)
    if (job.name == name) found.push_back(&job);
  std::ranges::sort(found, std::greater{},
                    [](const NamedJob* job) { return std::pair(job->submitted, job->id); });
  return found;
}

Result<NamedJob> JobNames::meant(const std::string& wanted, Purpose purpose) const {
  const auto named = bearers(wanted);
  if (!named.empty()) {
    std::vector<const NamedJob*> working;
    std::ranges::copy_if(named, std::back_inserter(working), &NamedJob::at_work);
    if (purpose == Purpose::remove && named.size() > 1) return several(wanted, named);
    if (purpose != Purpose::look && working.size() > 1) return several(wanted, working);
    return *named.front();
  }
  // An id, or a name and an id.
  const std::size_t tilde = wanted.rfind('~');
  const std::string prefix = tilde == std::string::npos ? wanted : wanted.substr(tilde + 1);
  std::vector<const NamedJob*> found;
  for (const auto& [id, job] : jobs_)
    if (!prefix.empty() && begins(job, prefix) &&
        (tilde == std::string::npos || job.name == wanted.substr(0, tilde)))
      found.push_back(&job);
  if (found.size() == 1) return *found.front();
  if (!found.empty()) return several(wanted, found);
  return Error{ErrorCode::not_found,
               "no job '" + wanted + "' is known here; `gpunode jobs` lists them"};
}

std::string JobNames::shown(const JobId& id) const {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return short_text(id);
  const std::string& name = found->second.name;
  return bearers(name).front()->id == id ? name : name + "~" + short_text(id);
}

std::optional<JobId> parse_job_id(const std::string& text) {
  Bytes raw = from_hex(text);
  if (raw.size() != 16) return std::nullopt;
  JobId id;
  for (int i = 0; i < 8; ++i) {
    id.high = id.high << 8 | std::to_integer<std::uint64_t>(raw[i]);
    id.low = id.low << 8 | std::to_integer<std::uint64_t>(raw[8 + i]);
  }
  return id;
}

}  // namespace gpunode::jobs
