// The parts that all JSON is made of, as rules: the first states of every automaton of that form, so that what
// is known of them holds for all. Texts are valid UTF-8 and escape no half of a pair; numbers have up to 18
// digits before and behind the point and exponents to 99, so that any reader can hold them; up to 64
// spaces, tabs and ends of lines stand where JSON lets them.
// Source: RFC 8259.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "runtime/grammar/automaton.hpp"

namespace gpunode::grammar::detail {

struct JsonRules {
  RuleId space = 0, escaped = 0, text = 0, whole = 0, number = 0, object = 0, list = 0, value = 0;
  StateId in_text = 0;          // behind its first quote
  StateId in_endless_text = 0;  // of one that no quote ends
};
// Into a builder that is empty.
JsonRules add_json_rules(AutomatonBuilder& builder);

// One character of a text in the automaton: the bytes of a letter, or an escape. All of them lead to `to`.
// `escaped`: the rule of what stands behind "\\u"; nothing: there are no escapes.
void on_character(AutomatonBuilder& builder, StateId from, StateId to,
                  std::optional<RuleId> escaped = {});

// What stands between the quotes of a name that is none of these; without escapes, and, where one of these
// goes on beyond ASCII, of those that begin alike none that does too.
StateId on_other_name(AutomatonBuilder& builder, StateId from, std::span<const std::string> names);

}  // namespace gpunode::grammar::detail
