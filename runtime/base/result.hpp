// Result<T>: a value or an Error. The house's one way to report an expected failure.
//
//   Result<File> open(...);
//   auto file = open(...);
//   if (!file) return file.error().within("checkpoint");
//   use(*file);
#pragma once

#include <optional>
#include <utility>
#include <variant>

#include "runtime/base/check.hpp"
#include "runtime/base/error.hpp"

namespace gpunode {

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
  Result(ErrorCode code, std::string detail)
      : state_(std::in_place_index<1>, Error{code, std::move(detail)}) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& operator*() & { return checked(); }
  const T& operator*() const& { return const_cast<Result*>(this)->checked(); }
  T&& operator*() && { return std::move(checked()); }
  T* operator->() { return &checked(); }
  const T* operator->() const { return &const_cast<Result*>(this)->checked(); }

  const Error& error() const {
    GPUNODE_CHECK(!has_value(), "error() of a Result that holds a value");
    return std::get<1>(state_);
  }

 private:
  T& checked() {
    GPUNODE_CHECK(has_value(), "value of a failed Result: " + std::get<1>(state_).message());
    return std::get<0>(state_);
  }
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}
  Result(ErrorCode code, std::string detail) : error_(Error{code, std::move(detail)}) {}

  bool has_value() const { return !error_.has_value(); }
  explicit operator bool() const { return has_value(); }
  const Error& error() const {
    GPUNODE_CHECK(error_.has_value(), "error() of a Result that holds a value");
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace gpunode
