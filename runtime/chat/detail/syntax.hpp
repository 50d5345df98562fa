// What the parser makes of a template: statements and the expressions in them. Built once, then
// looked at by any number of renderings.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/chat/detail/value.hpp"

namespace gpunode::chat::detail {

struct Expression;
using ExpressionPointer = std::unique_ptr<const Expression>;

struct Expression {
  enum class Kind {
    constant,
    name,
    list,
    tuple,
    dict,       // parts: key, value, key, value ...
    attribute,  // parts: of what; name
    subscript,  // parts: of what, which
    slice,      // parts: of what, start, stop, step; null where left out
    call,       // parts: what, arguments
    filter,     // parts: of what, arguments; name
    test,       // the same
    sign,       // parts: one; name: + or -
    negation,
    both,
    either,
    joined,      // a ~ b ~ c
    arithmetic,  // parts: two; name: the operator
    comparison,  // parts: the first, and one for each of `signs`
    choice,      // parts: if, then, else; the last null where left out
  };
  Kind kind;
  int line = 0;
  unsigned depth = 1;
  std::string name;
  Value constant;
  std::vector<ExpressionPointer> parts;
  std::vector<std::pair<std::string, ExpressionPointer>> named;  // arguments
  std::vector<std::string> signs;
};

struct Statement;
using Statements = std::vector<std::unique_ptr<Statement>>;
// That have no value where a scope begins (scopes.hpp).
using HiddenNames = std::vector<std::string>;

// Where a value goes: a name, an attribute of a namespace, or several of them.
struct Target {
  std::string name, attribute;
  std::vector<Target> parts;
  bool several = false;
};

struct Statement {
  enum class Kind { data, print, condition, loop, set, set_block, block, macro, leave, skip };
  Kind kind;
  int line = 0;
  std::string text;          // of data, or a macro's name
  Target target;             // of set and loop
  ExpressionPointer value;   // what is printed, set, or gone through
  ExpressionPointer filter;  // of a loop: its `if`
  std::vector<std::pair<ExpressionPointer, Statements>> branches;  // a null condition: else
  Statements body, otherwise;
  std::vector<std::pair<std::string, ExpressionPointer>> parameters;  // of a macro, with defaults
  HiddenNames hidden, hidden_otherwise;                               // of the two bodies
};

struct Syntax {
  Statements statements;
  HiddenNames hidden;
};

}  // namespace gpunode::chat::detail
