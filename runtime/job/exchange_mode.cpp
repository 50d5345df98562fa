#include "runtime/job/exchange_mode.hpp"

#include <vector>

#include "runtime/base/nearest.hpp"

namespace gpunode::job {
namespace {

constexpr ExchangeMode kModes[] = {
    {"exact", "float32; the result is the same bits whoever takes part", false},
    {"ring",
     "float32, one sum a member from neighbour to neighbour",
     true,
     {.route = collective::ring_route, .one_sum = true}},
    {"hierarchical",
     "float32, summed inside each place (exchange.group_by) and then between places; the same "
     "bits as exact",
     false,
     {.route = collective::grouped_route, .plan = collective::plan_by_places}},
    {"bf16", "half the bytes: bfloat16", true},
    {"int8", "about a quarter of the bytes: int8 with a scale for every 256 values", true},
    {"topk", "the largest values alone, a share of exchange.density", true},
    {"local", "exchange.inner_steps steps alone, then the changes of weights in exchange.form",
     true},
};

}  // namespace

Result<ExchangeMode> exchange_mode(const std::string& name) {
  std::vector<std::string> names;
  std::string list;
  for (const ExchangeMode& mode : kModes) {
    if (name == mode.name) return mode;
    names.push_back(mode.name);
    list += (list.empty() ? "" : ", ") + names.back();
  }
  const std::string near = nearest_of(name, names);
  return Error{ErrorCode::invalid_argument,
               "exchange.mode '" + name + "' is none that this version has; " +
                   (near.empty() ? "" : "did you mean '" + near + "'? ") + "There are: " + list +
                   ". 'exact' is right on any fast link, hierarchical where several nodes share a "
                   "machine; a slow link wants bf16, int8 or topk, a very slow one local"};
}

std::string inexact_note(const std::string& mode) {
  const auto known = exchange_mode(mode);
  if (!known || !known->inexact) return {};
  return "exchange mode " + mode + ": " + known->meaning +
         "; not exact: the result depends on who takes part, and all members still hold the same";
}

}  // namespace gpunode::job
