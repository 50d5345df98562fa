// One JSON string from any bytes: well-formed UTF-8 is kept, else every byte above 0x7e becomes
// \u00xx, so that a stranger's name can neither break a line of the audit log nor end its string.
// Included by .cpp files of this folder only.
#pragma once

#include <string>
#include <string_view>

namespace gpunode::security::detail {

std::string json_text(std::string_view bytes);  // with the quotes

}  // namespace gpunode::security::detail
