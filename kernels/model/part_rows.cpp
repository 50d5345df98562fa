// What of a pass is checked before a part computes it, whoever sent it.
#include <algorithm>
#include <cmath>

#include "kernels/model/decoder_part.hpp"

namespace gpunode::model {
namespace {

Result<void> check_each(std::span<const std::int32_t> numbers, std::size_t end, const char* what) {
  for (const std::int32_t number : numbers)
    if (number < 0 || static_cast<std::size_t>(number) >= end)
      return {ErrorCode::invalid_argument,
              std::string(what) + " " + std::to_string(number) + " of " + std::to_string(end)};
  return {};
}

Result<void> check_count(std::size_t count, std::size_t wanted, const char* what) {
  if (count == wanted) return {};
  return {ErrorCode::invalid_argument,
          std::to_string(count) + " " + what + ", of " + std::to_string(wanted)};
}

}  // namespace

Result<void> check_rows(const DecoderPart& part, const PassRows& rows, std::span<const float> in,
                        std::size_t out) {
  const DecoderExtents extents = part.extents();
  const std::size_t count = rows.positions.size();
  if (count == 0 || count > extents.rows || rows.chosen.size() > std::min(extents.texts, count))
    return {ErrorCode::invalid_argument,
            "a pass of " + std::to_string(count) + " rows, " + std::to_string(rows.chosen.size()) +
                " of them to be scored, where there may be " + std::to_string(extents.rows) +
                " and " + std::to_string(extents.texts)};
  const ModelPart& is = part.is();
  for (const auto& good :
       {check_count(rows.tokens.size(), is.is_first() ? count : 0, "tokens"),
        check_count(rows.texts.size(), count, "texts of rows"),
        check_count(rows.pages.size(), extents.texts * part.pages_of_text(), "pages of texts"),
        check_count(in.size(), count * is.takes, "numbers of the part before"),
        check_count(out, is.is_last() ? rows.chosen.size() * part.vocabulary() : count * is.gives,
                    "numbers that there is room for"),
        check_each(rows.tokens, part.vocabulary(), "token"),
        check_each(rows.positions, part.context(), "position"),
        check_each(rows.texts, extents.texts, "text"),
        check_each(rows.pages, extents.pages, "page"), check_each(rows.chosen, count, "row")})
    if (!good) return good;
  if (!std::ranges::all_of(in, [](float value) { return std::isfinite(value); }))
    return {ErrorCode::invalid_argument, "a number of the part before is not finite"};
  return {};
}

}  // namespace gpunode::model
