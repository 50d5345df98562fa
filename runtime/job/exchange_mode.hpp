// The ways in which the members of a job may sum their gradients: a job names one in its file.
// One table says how each is written, what it means and which way its sums take; the functions that
// pack floats are kernels' and are handed in by the actors.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/collective/sum_route.hpp"

namespace gpunode::job {

enum class ExchangeMode : std::uint8_t { exact, ring, hierarchical, bf16, int8, topk, local };

struct ExchangeModeFacts {
  const char* name;                  // in job files, manifests and JSON
  const char* meaning;               // what travels, for people
  bool inexact = false;              // the result depends on who takes part
  bool is_form = false;              // mode local's changes of weights may travel so
  collective::Routing routing = {};  // empty: partial sums go directly to the owners of chunks
};
const ExchangeModeFacts& facts_of(ExchangeMode mode);

// Fails with invalid_argument for a mode that this version does not have: says which there are.
Result<ExchangeMode> parse_exchange_mode(const std::string& name);

// What people are told when a job of an inexact mode starts, and what `job show` says; empty: the
// mode is exact.
std::string inexact_note(ExchangeMode mode);

}  // namespace gpunode::job
