// The name of what a stranger may have written, a job's manifest or a view: the first 128 bits of its
// SHA-256, as nobody can make two contents of one name. (runtime/base/digest.hpp is no such hash.)
#pragma once

#include "runtime/base/bytes.hpp"
#include "runtime/base/digest.hpp"

namespace gpunode::storage {

Digest strong_digest_of(ByteView bytes);

}  // namespace gpunode::storage
