// A job's steps by several members in one process, each with its own devices: the product's trainer
// and exchange with the mode's wire forms, and nothing between the members but the messages. All
// members come to the same states, whatever their devices are.
#pragma once

#include <vector>

#include "tests/parity/hostile/training_course.hpp"

namespace gpunode::compute {

struct Member {
  TrainingCourse::Devices devices;
  TrainingCourse::How how;
};

// The states after each step. Fails with what a member fails with; internal: members disagree, or
// a step is not committed.
Result<std::vector<Digest>> exchange(TrainingCourse& course, const std::vector<Member>& members);

}  // namespace gpunode::compute
