// A JSON Schema as rules of an automaton: a strict subset, in which every text that the rules give is valid
// by the schema, and what is not known is refused with its keyword and its path.
// Private to the grammar.
//   type (one or a list), enum, const, anyOf, $ref to "#", "#/$defs/..." or "#/definitions/..."
//   object   properties, in their order, required, additionalProperties: other names come behind those
//            of `properties`; where it is absent and `properties` is there, none may
//   array    items, minItems, maxItems
//   string   minLength, maxLength
//   annotations, which say nothing of the form: title, description, default, examples, $schema, $id, $comment,
//            deprecated, readOnly, writeOnly
// Source: JSON Schema, draft 2020-12.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runtime/grammar/automaton.hpp"
#include "runtime/grammar/detail/json_rules.hpp"

namespace gpunode::grammar::detail {

// The rule of a value of this schema. Fails with: invalid_argument (a schema that makes no sense),
// unsupported (what is not known here), resource_exhausted (too large, too deep).
Result<RuleId> add_schema(AutomatonBuilder& builder, const JsonRules& json,
                          const nlohmann::ordered_json& schema);

}  // namespace gpunode::grammar::detail
