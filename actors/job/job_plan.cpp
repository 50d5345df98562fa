#include "actors/job/job_plan.hpp"

#include <algorithm>

#include "runtime/collective/sum_station.hpp"
#include "runtime/job/exchange_mode.hpp"

namespace gpunode::jobs {
namespace {

using nlohmann::json;

const Fitness& fitness_of(const JobPlan& plan, const NodeId& node) {
  return std::ranges::find(plan.fit, node, &FitNode::node)->fitness;
}

json memory_of(const Fitness& fitness) {
  json line = {{"memory_needed_bytes", fitness.memory_needed_bytes}};
  if (fitness.memory_available_bytes > 0)
    line["memory_available_bytes"] = fitness.memory_available_bytes;
  return line;
}

std::uint64_t bytes_of(double gradients, const ModelFigures& model) {
  return static_cast<std::uint64_t>(gradients * static_cast<double>(model.gradient_bytes) + 0.5);
}

// By rank: what each candidate would do.
std::vector<json> members_of(const JobPlan& plan) {
  const job::JobSpec& spec = plan.choice.spec;
  const auto count = static_cast<std::uint16_t>(spec.candidates.size());
  if (count == 0) return {};
  const collective::Tree tree = job::tree_of(spec.train);
  const collective::Routing& routing = job::facts_of(spec.exchange.mode).routing;
  std::vector<std::uint64_t> sites;
  for (const NodeId& node : spec.candidates) sites.push_back(fitness_of(plan, node).site);
  collective::SlicePlan slices = collective::balanced_plan(tree, count);
  if (routing.plan) slices = routing.plan(tree, slices, sites);
  const auto route = routing.route ? routing.route(sites) : nullptr;
  std::vector<json> lines;
  for (std::uint16_t rank = 0; rank < count; ++rank) {
    json line = memory_of(fitness_of(plan, spec.candidates[rank]));
    const auto traffic = collective::traffic_of(route.get(), tree, slices, count, rank);
    line["slices"] = slices.slices_of(rank).size();
    line["sent_bytes"] = bytes_of(traffic.sent, plan.model);
    line["received_bytes"] = bytes_of(traffic.received, plan.model);
    lines.push_back(std::move(line));
  }
  return lines;
}

json nodes_of(const JobPlan& plan, const std::function<std::string(const NodeId&)>& name_of) {
  const Choice& choice = plan.choice;
  json nodes = json::array();
  const auto add = [&](json line, const NodeId& node, const std::string& reason) {
    line["node"] = name_of(node);
    line["takes_part"] = reason.empty();
    if (!reason.empty()) line["reason"] = reason;
    nodes.push_back(std::move(line));
  };
  std::vector<json> members = members_of(plan);
  for (std::size_t rank = 0; rank < members.size(); ++rank)
    add(std::move(members[rank]), choice.spec.candidates[rank], "");
  for (const FitNode& one : plan.fit) {
    const bool known = std::ranges::count(choice.spec.candidates, one.node) > 0 ||
                       std::ranges::count(choice.refused, one.node, &Refusal::node) > 0;
    if (!known)
      add(memory_of(one.fitness), one.node,
          "it is fit, and not needed: the job wants " + std::to_string(choice.spec.nodes) +
              (choice.spec.nodes == 1 ? " node" : " nodes"));
  }
  for (const Refusal& refusal : choice.refused) {
    const bool fit = std::ranges::count(plan.fit, refusal.node, &FitNode::node) > 0;
    add(fit ? memory_of(fitness_of(plan, refusal.node)) : json::object(), refusal.node,
        refusal.reason);
  }
  return nodes;
}

// What the plan gives that nobody is likely to want, though it is no mistake.
std::vector<std::string> remarks_of(const JobPlan& plan) {
  const job::JobSpec& spec = plan.choice.spec;
  const job::TrainSpec& train = spec.train;
  std::vector<std::string> remarks;
  const std::uint64_t updates = train.steps * spec.inner_steps();
  if (train.warmup_steps > updates)
    remarks.push_back("train.warmup_steps (" + std::to_string(train.warmup_steps) +
                      ") is more than the " + std::to_string(updates) +
                      " steps of the job: the rate never rises to train.learning_rate");
  if (train.learning_rate < train.min_learning_rate)
    remarks.push_back(
        "train.learning_rate is below train.min_learning_rate, to which it is to decay: after the "
        "warm-up the rate rises instead");
  if (train.slices < spec.candidates.size())
    remarks.push_back("train.slices (" + std::to_string(train.slices) + ") is less than the " +
                      std::to_string(spec.candidates.size()) +
                      " nodes that take part: who has no slice computes nothing");
  return remarks;
}

}  // namespace

json plan_json(const JobPlan& plan, const std::function<std::string(const NodeId&)>& name_of) {
  const job::JobSpec& spec = plan.choice.spec;
  const std::uint64_t samples = spec.train.batch * spec.inner_steps();
  json out = {{"name", spec.name},
              {"starts", !plan.refusal},
              {"waits", plan.waits},
              {"nodes_wanted", spec.nodes},
              {"nodes_least", spec.min_nodes},
              {"nodes_taking_part", spec.candidates.size()},
              {"nodes", nodes_of(plan, name_of)},
              {"model", plan.model.name},
              {"parameters", plan.model.parameters},
              {"steps", spec.train.steps},
              {"slices_per_step", spec.train.slices},
              {"samples_per_step", samples},
              {"tokens_per_step", samples * plan.model.tokens_per_sample},
              {"exchange_mode", job::facts_of(spec.exchange.mode).name},
              {"checkpoint_bytes", plan.model.checkpoint_bytes},
              {"checkpoint_every", spec.checkpoint.every},
              {"checkpoints_kept", spec.checkpoint.keep},
              {"data", spec.data.text()},
              {"remarks", remarks_of(plan)}};
  if (plan.refusal)
    out["refusal"] = {{"code", std::string(to_string(plan.refusal->code))},
                      {"detail", plan.refusal->detail}};
  if (spec.sample_count > 0) {
    out["data_bytes"] = spec.data_bytes;
    out["data_samples"] = spec.sample_count;
    out["epochs"] = static_cast<double>(spec.train.steps) * static_cast<double>(samples) /
                    static_cast<double>(spec.sample_count);
  }
  return out;
}

}  // namespace gpunode::jobs
