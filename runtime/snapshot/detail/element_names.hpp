// The names of element types in safetensors headers, and their order in its files. Private to the
// snapshot module.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "runtime/snapshot/manifest.hpp"

namespace gpunode::snapshot::detail {

struct ElementName {
  ElementType type;
  std::string_view name;
  std::uint64_t bytes;
};

// In the order of the reference implementation's type list; its files have later ones first.
inline constexpr std::array<ElementName, 7> kElements{{{ElementType::u8, "U8", 1},
                                                       {ElementType::f16, "F16", 2},
                                                       {ElementType::bf16, "BF16", 2},
                                                       {ElementType::i32, "I32", 4},
                                                       {ElementType::f32, "F32", 4},
                                                       {ElementType::f64, "F64", 8},
                                                       {ElementType::i64, "I64", 8}}};

inline std::optional<ElementType> element_named(std::string_view name) {
  for (const ElementName& element : kElements)
    if (element.name == name) return element.type;
  return std::nullopt;
}

inline std::size_t element_rank(ElementType type) {
  for (std::size_t i = 0; i < kElements.size(); ++i)
    if (kElements[i].type == type) return i;
  return 0;
}

}  // namespace gpunode::snapshot::detail
