// What a function, a filter or a test is given, put in the places of its parameters. Throws a
// ThrownError where one is unknown, given twice, missing, or of a kind that makes no sense.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/chat/detail/value.hpp"

namespace gpunode::chat::detail {

class Bound {
 public:
  // The first `required` of them must be given; where `named`, any may be given by its name.
  Bound(std::string what, const Arguments& given, std::initializer_list<std::string_view> names,
        std::size_t required = 0, bool named = true);

  // Null: not given.
  const Value* operator[](std::size_t place) const { return values_[place]; }
  // Null as well where it is none.
  const Value* unless_none(std::size_t place) const;
  bool truth_of(std::size_t place) const { return values_[place] && truth(*values_[place]); }
  const std::string& text(std::size_t place) const;
  std::int64_t integer(std::size_t place, std::int64_t otherwise) const;

 private:
  std::string what_;
  std::vector<const Value*> values_;
};

}  // namespace gpunode::chat::detail
