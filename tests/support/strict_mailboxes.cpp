// Linked into every test program: a message that its receiver does not know ends the process.
#include "actors/stray.hpp"

namespace {
const bool strict = gpunode::stray_messages_abort = true;
}  // namespace
