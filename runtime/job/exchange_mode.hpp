// The ways in which the members of a job may sum their gradients: a job names one in its file.
// Names and meanings only; the functions behind them are kernels' and are handed in by the actors.
#pragma once

#include <span>
#include <string>

#include "runtime/base/result.hpp"

namespace gpunode::job {

struct ExchangeMode {
  const char* name;
  const char* meaning;   // what travels, for people
  bool inexact = false;  // the result depends on who takes part
};

std::span<const ExchangeMode> exchange_modes();

// Fails with invalid_argument for a mode that this version does not have: says which there are.
Result<ExchangeMode> exchange_mode(const std::string& name);

// What people are told when a job of an inexact mode starts, and what `job show` says; empty: the
// mode is exact.
std::string inexact_note(const std::string& mode);

}  // namespace gpunode::job
