// What a text is to be, as who asks for it says it: JSON of any form, JSON by a schema, or one of some texts.
// Read into an automaton (automaton.hpp); what is not known is refused by name.
//   {"type": "json_object"}    {"type": "json_schema", "schema": {...}}    {"type": "choice", "choices": ["a", "b"]}
#pragma once

#include <memory>
#include <string_view>

#include "runtime/grammar/automaton.hpp"

namespace gpunode::grammar {

inline constexpr std::size_t kLongestFormBytes = 1 << 16;

// Spaces may stand before a text that is JSON, none behind it: it is over where its last bracket is.
// Fails with: invalid_argument (no form, or one that no text has), unsupported (a keyword of a schema that
// is not known here, with its path), resource_exhausted (a form that is too large or too deep).
Result<std::shared_ptr<const Automaton>> parse_form(std::string_view form);

}  // namespace gpunode::grammar
