#include "tools/gpunode/text.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <initializer_list>

namespace gpunode::cli {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t milliseconds;
};
constexpr Unit kUnits[] = {
    {"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}};
constexpr std::int64_t kLongestMilliseconds = std::int64_t{3650} * 86'400'000;

// Characters of UTF-8, not bytes.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

// "2m10s", "2m"
std::string two_units(std::int64_t seconds, std::int64_t large, const char* large_name,
                      std::int64_t small, const char* small_name) {
  std::int64_t rest = seconds % large / small;
  return std::to_string(seconds / large) + large_name +
         (rest > 0 ? std::to_string(rest) + small_name : "");
}

// In the largest unit that leaves at least one, each so many times the one before.
std::string scaled(double value, double times, std::initializer_list<const char*> units) {
  auto unit = units.begin();
  for (; value >= times && unit + 1 != units.end(); ++unit) value /= times;
  return decimal(value, unit == units.begin() ? 0 : 1) + *unit;
}

}  // namespace

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  Error wrong{ErrorCode::invalid_argument,
              "wants a time such as 30s, 15m or 2h, not '" + std::string(text) + "'"};
  const Error too_long{ErrorCode::invalid_argument,
                       "wants at most ten years (3650d), not '" + std::string(text) + "'"};
  std::int64_t total = 0;
  std::string_view rest = text;
  if (rest.empty()) return wrong;
  while (!rest.empty()) {
    std::int64_t number = 0;
    std::size_t digits = 0;
    while (digits < rest.size() && std::isdigit(static_cast<unsigned char>(rest[digits]))) {
      number = number * 10 + (rest[digits++] - '0');
      if (number > kLongestMilliseconds) return too_long;
    }
    if (digits == 0) return wrong;
    rest.remove_prefix(digits);
    std::size_t letters = 0;
    while (letters < rest.size() && std::isalpha(static_cast<unsigned char>(rest[letters])))
      ++letters;
    auto unit = std::find_if(std::begin(kUnits), std::end(kUnits),
                             [&](const Unit& one) { return one.name == rest.substr(0, letters); });
    if (unit == std::end(kUnits)) return wrong;
    rest.remove_prefix(letters);
    if (number > kLongestMilliseconds / unit->milliseconds) return too_long;
    total += number * unit->milliseconds;
    if (total > kLongestMilliseconds) return too_long;
  }
  return std::chrono::milliseconds(total);
}

std::string decimal(double value, int digits) {
  if (!std::isfinite(value)) return "not finite";
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*f", digits, value);
  std::string text = buffer;
  if (text.find('.') == std::string::npos) return text;
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string time_text(double since_1970) {
  constexpr double kYear9999 = 253'402'300'799.0;
  if (!(since_1970 >= 0 && since_1970 <= kYear9999)) return "?";
  auto milliseconds = static_cast<std::int64_t>(since_1970 * 1000);
  std::time_t whole = milliseconds / 1000;
  std::tm parts{};
  gmtime_r(&whole, &parts);
  char buffer[64], text[80];
  std::strftime(buffer, sizeof buffer, "%Y-%m-%d %H:%M:%S", &parts);
  std::snprintf(text, sizeof text, "%s.%03dZ", buffer, static_cast<int>(milliseconds % 1000));
  return text;
}

std::string fine_duration(double seconds) {
  if (seconds < 1e-3) return decimal(1e6 * seconds, 1) + " us";
  return seconds < 1 ? decimal(1e3 * seconds, 2) + " ms" : decimal(seconds, 2) + " s";
}

std::string human_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  if (seconds < 10) return decimal(seconds, 1) + "s";
  auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole < 60) return std::to_string(whole) + "s";
  if (whole < 3600) return two_units(whole, 60, "m", 1, "s");
  if (whole < 86'400) return two_units(whole, 3600, "h", 60, "m");
  return two_units(whole, 86'400, "d", 3600, "h");
}

std::string human_bytes(double bytes) {
  return scaled(bytes, 1024, {" B", " KiB", " MiB", " GiB", " TiB"});
}

std::string human_count(double count) {
  return scaled(count, 1000, {"", "k", "M", "G", "T", "P"});
}

std::string with_line_end(std::string text) {
  if (!text.ends_with('\n')) text += '\n';
  return text;
}

std::string listen_address(const std::string& text) {
  return parse_number(text, 0, 65535) ? "0.0.0.0:" + text : text;
}

std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (widths.size() <= i) widths.push_back(0);
      widths[i] = std::max(widths[i], width(row[i]));
    }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - width(row[i]) + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace gpunode::cli
