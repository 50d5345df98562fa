// A DurableRecord that nobody but its owner may read: keys, token proofs. Reading one that is open
// to group or others fails, as its secrets must then be taken for known.
// Included by .cpp files of this folder only.
#pragma once

#include <optional>

#include "runtime/storage/durable_record.hpp"

namespace gpunode::security::detail {

// The payload, or nothing when there is no such file. Fails with permission_denied (others may
// read it), corrupted, unsupported, io_error.
Result<std::optional<Bytes>> load_private(storage::FileSystem& files, const storage::Path& path,
                                          storage::RecordFormat format);

}  // namespace gpunode::security::detail
