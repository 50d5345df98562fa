// What a member tells of its standing when it promises, as bytes; and the names of checkpoints, which
// other job messages have too. Used by job_codec.cpp alone.
#pragma once

#include <string>

#include "runtime/base/result.hpp"
#include "runtime/view/view_agreement.hpp"
#include "schemas/job_generated.h"

namespace gpunode::job {

inline Error corrupted(const std::string& what) {
  return {ErrorCode::corrupted, "job message: " + what};
}

wire::job::Checkpoint checkpoint_to_wire(const view::CheckpointName& name, const Digest& digest);
view::CheckpointName name_from_wire(const wire::job::Checkpoint* from);
Digest digest_from_wire(const wire::job::Checkpoint* from);

flatbuffers::Offset<wire::job::Standing> standing_to_wire(flatbuffers::FlatBufferBuilder& out,
                                                          const view::Standing& where);
// Fails with: corrupted.
Result<view::Standing> standing_from_wire(const wire::job::Standing* from);

}  // namespace gpunode::job
