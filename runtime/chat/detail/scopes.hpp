// Which names have no value where a scope begins, though something outside the template has one of that
// name. Jinja settles that when it reads a template: a name that a scope sets before it first reads it
// is the scope's own from its beginning, for all that lies in it.
#pragma once

#include "runtime/chat/detail/syntax.hpp"

namespace gpunode::chat::detail {

// Notes them in the statements, and returns those of the template itself.
HiddenNames note_hidden_names(Statements& statements);

}  // namespace gpunode::chat::detail
