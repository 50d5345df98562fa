#include "runtime/job/exchange_mode.hpp"

#include <array>
#include <vector>

#include "runtime/base/nearest.hpp"

namespace gpunode::job {
namespace {

// By mode, in the order of the enum.
constexpr std::array<ExchangeModeFacts, 7> kModes = {{
    {.name = "exact",
     .meaning = "float32; the result is the same bits whoever takes part",
     .is_form = true},
    {.name = "ring",
     .meaning = "float32, one sum a member from neighbour to neighbour",
     .inexact = true,
     .routing = {.route = collective::ring_route, .one_sum = true}},
    {.name = "hierarchical",
     .meaning = "float32, summed inside each site (exchange.group_by) and then between sites; "
                "the same bits as exact",
     .routing = {.route = collective::grouped_route, .plan = collective::plan_by_sites}},
    {.name = "bf16", .meaning = "half the bytes: bfloat16", .inexact = true, .is_form = true},
    {.name = "int8",
     .meaning = "about a quarter of the bytes: int8 with a scale for every 256 values",
     .inexact = true,
     .is_form = true},
    {.name = "topk",
     .meaning = "the largest values alone, a share of exchange.density",
     .inexact = true,
     .is_form = true},
    {.name = "local",
     .meaning = "exchange.inner_steps steps alone, then the changes of weights in exchange.form",
     .inexact = true},
}};
static_assert(kModes.size() == static_cast<std::size_t>(ExchangeMode::local) + 1);

}  // namespace

const ExchangeModeFacts& facts_of(ExchangeMode mode) {
  return kModes[static_cast<std::size_t>(mode)];
}

Result<ExchangeMode> parse_exchange_mode(const std::string& name) {
  std::vector<std::string> names;
  std::string list;
  for (std::size_t index = 0; index < kModes.size(); ++index) {
    if (name == kModes[index].name) return static_cast<ExchangeMode>(index);
    names.push_back(kModes[index].name);
    list += (list.empty() ? "" : ", ") + names.back();
  }
  const std::string near = nearest_of(name, names);
  return Error{ErrorCode::invalid_argument,
               "exchange.mode '" + name + "' is none that this version has; " +
                   (near.empty() ? "" : "did you mean '" + near + "'? ") + "There are: " + list +
                   ". 'exact' is right on any fast link, hierarchical where several nodes share a "
                   "machine; a slow link wants bf16, int8 or topk, a very slow one local"};
}

std::string inexact_note(ExchangeMode mode) {
  const ExchangeModeFacts& facts = facts_of(mode);
  if (!facts.inexact) return {};
  return std::string("exchange mode ") + facts.name + ": " + facts.meaning +
         "; not exact: the result depends on who takes part, and all members still hold the same";
}

}  // namespace gpunode::job
