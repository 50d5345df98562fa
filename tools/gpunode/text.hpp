// Figures and tables as people read them. Pure.
#pragma once

#include <charconv>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"

namespace gpunode::cli {

// "30s", "15m", "2h", "1d", "250ms", also joined: "1h30m". Fails with invalid_argument; the detail
// goes on after the flag's name: "wants a time such as 30s, 15m or 2h, not '15 apples'".
Result<std::chrono::milliseconds> parse_duration(std::string_view text);

// The number that is all of a text, if it lies within the bounds.
template <class Number>
std::optional<Number> parse_number(std::string_view text, Number smallest, Number largest) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stopped, failure] = std::from_chars(text.data(), end, value);
  const bool fine = failure == std::errc{} && stopped == end;
  return fine && value >= smallest && value <= largest ? std::optional(value) : std::nullopt;
}

std::string decimal(double value, int digits);  // "2.5", without zeros at the end
std::string human_duration(double seconds);     // "2m10s"
std::string fine_duration(double seconds);      // "12.3 us", "1.20 ms", "2.00 s"
std::string time_text(double since_1970);       // "2026-11-21 14:37:33.123Z"
std::string human_bytes(double bytes);          // "1.5 GiB"
std::string human_count(double count);          // "12.3k"

// So that what is printed next begins a line of its own.
std::string with_line_end(std::string text);

// "21807" as "0.0.0.0:21807": a port alone is one on every address.
std::string listen_address(const std::string& text);

// Rows of equal length, the first is the head; columns two blanks apart, no blanks at line ends.
std::string aligned(const std::vector<std::vector<std::string>>& rows);

}  // namespace gpunode::cli
