// The ways in which the members of a job may sum their gradients: a job names one in its file.
// Names, meanings and the ways of the sums; the functions that pack floats are kernels' and are
// handed in by the actors.
#pragma once

#include <span>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/collective/sum_route.hpp"

namespace gpunode::job {

struct ExchangeMode {
  const char* name;
  const char* meaning;               // what travels, for people
  bool inexact = false;              // the result depends on who takes part
  collective::Routing routing = {};  // empty: partial sums go directly to the owners of chunks
};

// Fails with invalid_argument for a mode that this version does not have: says which there are.
Result<ExchangeMode> exchange_mode(const std::string& name);

// What people are told when a job of an inexact mode starts, and what `job show` says; empty: the
// mode is exact.
std::string inexact_note(const std::string& mode);

}  // namespace gpunode::job
