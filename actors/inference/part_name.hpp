// A part of a model as people write it, "2/3", and what it is served as: the first, its head, under the
// model's name, for it answers as the model; another one as "NAME/2/3", which no model is called. Pure.
#pragma once

#include <charconv>
#include <string>
#include <string_view>

#include "actors/checkpoint/weight_image.hpp"

namespace gpunode::inference {

inline constexpr std::size_t kMostPartsOfModel = 64;

// Fails with: invalid_argument.
inline Result<checkpoint::PartChoice> part_of_text(std::string_view text) {
  std::size_t number = 0, of = 0;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, number);
  const bool goes_on = first.ec == std::errc() && first.ptr != end && *first.ptr == '/';
  const auto second = std::from_chars(goes_on ? first.ptr + 1 : end, end, of);
  const bool is_whole = goes_on && second.ec == std::errc() && second.ptr == end;
  if (!is_whole || number < 1 || of < number || of > kMostPartsOfModel)
    return Error{ErrorCode::invalid_argument,
                 "'" + std::string(text) +
                     "' is no part of a model: 2/3 is the second of three, of " +
                     std::to_string(kMostPartsOfModel) + " at most"};
  return checkpoint::PartChoice{number - 1, of};
}

inline std::string text_of(const checkpoint::PartChoice& part) {
  return std::to_string(part.number + 1) + "/" + std::to_string(part.of);
}

inline bool is_head(const checkpoint::PartChoice& part) {
  return part.number == 0;
}

inline std::string served_name(const std::string& model, const checkpoint::PartChoice& part) {
  return is_head(part) ? model : model + "/" + text_of(part);
}
// Whether something served under this name is a part that is no head.
inline bool names_part(std::string_view served) {
  return served.find('/') != std::string_view::npos;
}
// The model alone.
inline std::string model_of(std::string_view served) {
  return std::string(served.substr(0, served.find('/')));
}

}  // namespace gpunode::inference
