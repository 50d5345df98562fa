// Reads a job file (TOML) into a JobSpec. Sections: top level, [data], [model], [train],
// [checkpoint], [exchange]; [model] belongs to the model, which checks its own keys.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/result.hpp"
#include "runtime/job/job_spec.hpp"

namespace gpunode::jobs {

// Relative paths (data.path, data.validation_path, model.start) are taken from `base_directory`. Fails
// with invalid_argument: not TOML (line and column), an unknown section or key (naming the nearest
// known one), a bad value.
Result<job::JobSpec> parse_job_file(std::string_view text, const std::string& base_directory);

}  // namespace gpunode::jobs
