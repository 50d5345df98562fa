// A member that lives as far as others can see, and tells in its part of the directory what a file says
// of jobs, whether they are or not.
#pragma once

#include <string>

#include "tests/hostile/hostile_member.hpp"

namespace gpunode::hostile {

// For so many seconds; the file, JSON, is read anew all the time: a list of {job, phase, name, step,
// steps, view, members, wanted, waited_as, submitted, submitter, ended, rises (the step does), reason}, of
// which all but the first two may be left out.
int tell(Member& member, const std::string& file, double seconds);

}  // namespace gpunode::hostile
