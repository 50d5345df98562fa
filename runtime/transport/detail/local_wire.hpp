// What the two ends of the local command channel share. One frame a message, because a multipart
// one can abort libzmq 4.3.4 when its connection dies: request = the text; reply = one letter, P
// for a partial and F for the final one, and the text.
#pragma once

#include <sys/un.h>

#include <optional>
#include <string>

#include "runtime/base/result.hpp"

namespace gpunode::transport::detail {

inline constexpr char kPartial = 'P';
inline constexpr char kFinal = 'F';
inline constexpr std::size_t kMaxLocalPath = 107;  // of sockaddr_un, without the ending zero
inline constexpr int kLocalBacklog = 1024;         // connections that wait to be taken
inline constexpr std::int64_t kMaxLocalBytes = std::int64_t{64} << 20;

// Connects to the socket file and closes again: 0, or an errno.
int try_local(const std::string& path);

}  // namespace gpunode::transport::detail
