// What becomes of a message that its receiver does not know. A misdirected send is a bug of ours: a
// warning in production, where the rest of the node is worth more than the lesson; the end of the
// process in tests, which set this at their start (tests/support/strict_mailboxes.cpp).
#pragma once

#include <atomic>

namespace gpunode {

inline std::atomic<bool> stray_messages_abort{false};

}  // namespace gpunode
