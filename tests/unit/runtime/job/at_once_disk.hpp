// A job core whose disk has all at once.
#pragma once

#include <utility>
#include <variant>

#include "runtime/job/job_core.hpp"

namespace gpunode::job {

// All that comes of the input, what the disk's answers lead to included.
template <class Input>
Actions with_disk(JobCore& core, Time now, Input input) {
  Actions all, out;
  input(out);
  while (!out.empty()) {
    Actions more;
    for (const Action& one : out) {
      all.push_back(one);
      if (const auto* write = std::get_if<Persist>(&one))
        core.on_persisted(now, write->token, more);
    }
    out = std::move(more);
  }
  return all;
}

}  // namespace gpunode::job
