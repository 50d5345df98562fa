// Filters: what stands behind `|`. Each takes the value before it and what it is given in brackets.
// Those of texts are in text_filters.cpp, those of lists in list_filters.cpp.
#pragma once

#include <map>
#include <string_view>

#include "runtime/chat/detail/value.hpp"

namespace gpunode::chat::detail {

// Throws a ThrownError for values that it has no meaning for.
using Filter = Value (*)(const Value& value, const Arguments& given, Budget& budget);
// Null: not known here.
Filter find_filter(std::string_view name);

using FilterTable = std::map<std::string_view, Filter>;
const FilterTable& text_filters();
const FilterTable& list_filters();

}  // namespace gpunode::chat::detail
