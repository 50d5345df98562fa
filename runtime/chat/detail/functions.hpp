// Functions that every template has: range, namespace, dict, and transformers' raise_exception and
// strftime_now. Throw a ThrownError.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "runtime/chat/detail/value.hpp"

namespace gpunode::chat::detail {

// Namespaces that a rendering has made. They alone can hold themselves, and are emptied at its end.
using Namespaces = std::vector<NamespacePointer>;

// The function of that name; none: there is none. Throws for Jinja's that are not known here.
std::optional<Value> global_function(const std::string& name, std::chrono::local_seconds now,
                                     Namespaces& namespaces, Budget& budget);

}  // namespace gpunode::chat::detail
