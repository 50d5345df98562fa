// Which types CAF may carry from actor to actor: every class of ours. Messages never leave the
// process, so none has to be registered, named or serialised one by one. One constrained trait in
// place of CAF's macro for each type; evaluated by the compiler, costs nothing.
#pragma once

#include <caf/allowed_unsafe_message_type.hpp>

#include <string_view>
#include <type_traits>

// Outside of our namespace, within which GCC would leave its name away.
namespace own_message {

// Whether T is named in namespace gpunode, as GCC and Clang spell it here.
template <class T>
constexpr bool is_gpunodes() {
  return std::string_view(__PRETTY_FUNCTION__).find("T = gpunode::") != std::string_view::npos;
}

}  // namespace own_message

namespace gpunode {

template <class T>
concept OwnMessage = std::is_class_v<T> && own_message::is_gpunodes<T>();

}  // namespace gpunode

template <gpunode::OwnMessage T>
struct caf::allowed_unsafe_message_type<T> : std::true_type {};
