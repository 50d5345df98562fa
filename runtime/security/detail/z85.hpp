// Z85, the text form of ZeroMQ keys: 4 bytes in 5 printable characters. Source: ZeroMQ RFC 32.
// Included by .cpp files of this folder only.
#pragma once

#include <string_view>

#include "runtime/base/bytes.hpp"

namespace gpunode::security::detail {

// Writes bytes.size() / 4 * 5 characters; bytes.size() is a multiple of 4.
void z85_encode(ByteView bytes, char* out);
// Fills `out`; false unless `text` is exactly the Z85 of out.size() bytes.
bool z85_decode(std::string_view text, MutableByteView out);

}  // namespace gpunode::security::detail
