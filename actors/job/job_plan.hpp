// What would become of a job if it were started now: who takes part, how much each computes, sends
// and holds, what a step and a checkpoint are. From the answers of nodes that were asked whether they
// are fit; nothing is started. Pure.
#pragma once

#include <nlohmann/json.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/job/job_submission.hpp"

namespace gpunode::jobs {

struct JobPlan {
  ModelFigures model;
  std::optional<Error> refusal;  // in the words of `train`
  bool waits = false;            // for what the refusal says, rather than be refused
  std::vector<FitNode> fit;
  Choice choice;
};

// As its first view would make it: the members' speeds are not known before they compute.
nlohmann::json plan_json(const JobPlan& plan,
                         const std::function<std::string(const NodeId&)>& name_of);

}  // namespace gpunode::jobs
