#include "runtime/chat/detail/arguments.hpp"

#include <algorithm>

namespace gpunode::chat::detail {

Bound::Bound(std::string what, const Arguments& given,
             std::initializer_list<std::string_view> names, std::size_t required, bool named)
    : what_(std::move(what)), values_(names.size()) {
  if (given.positional.size() > names.size()) wrong(what_ + " is given too many arguments");
  for (std::size_t i = 0; i < given.positional.size(); ++i) values_[i] = &given.positional[i];
  for (const auto& [name, value] : given.named) {
    const auto place =
        static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    if (!named || place == names.size()) wrong(what_ + " has no argument '" + name + "'");
    if (values_[place]) wrong(what_ + " is given '" + name + "' twice");
    values_[place] = &value;
  }
  for (const Value* value : values_)
    if (value) refuse_marked(*value);
  for (std::size_t i = 0; i < required; ++i)
    if (!values_[i]) wrong(what_ + " is not given '" + std::string(names.begin()[i]) + "'");
}

const Value* Bound::unless_none(std::size_t place) const {
  return values_[place] && !is<None>(*values_[place]) ? values_[place] : nullptr;
}

const std::string& Bound::text(std::size_t place) const {
  const std::string* text = values_[place] ? text_in(*values_[place]) : nullptr;
  if (!text) wrong(what_ + " is given no text");
  return *text;
}

std::int64_t Bound::integer(std::size_t place, std::int64_t otherwise) const {
  if (!values_[place]) return otherwise;
  const auto number = integer_in(*values_[place]);
  if (!number) wrong(what_ + " is given no integer");
  return *number;
}

}  // namespace gpunode::chat::detail
