// Filters that give a text or a number.
#include <charconv>
#include <cmath>
#include <limits>

#include "runtime/chat/detail/arguments.hpp"
#include "runtime/chat/detail/characters.hpp"
#include "runtime/chat/detail/filters.hpp"
#include "runtime/chat/detail/methods.hpp"
#include "runtime/chat/detail/operators.hpp"
#include "runtime/chat/detail/value_text.hpp"

namespace gpunode::chat::detail {
namespace {

Value trim(const Value& value, const Arguments& given, Budget& budget) {
  const Bound bound("trim", given, {"chars"});
  refuse_marked(value);
  const std::string text = printed(value, budget);
  const auto taken = bound.unless_none(0) ? stripped(text, bound.text(0)) : stripped(text);
  return make_text(std::string(taken), budget);
}

template <std::string (*form)(std::string_view)>
Value formed(const Value& value, const Arguments& given, Budget& budget) {
  const Bound bound("a filter of letters", given, {});
  refuse_marked(value);
  return make_text(form(printed(value, budget)), budget);
}

// Words begin behind spaces, hyphens and opening brackets.
std::string title_words(std::string_view text) {
  std::string made;
  while (!text.empty()) {
    const auto parts = [](char32_t c) {
      return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || is_space(c);
    };
    std::string_view rest = text;
    const bool between = parts(take_character(rest));
    while (!rest.empty()) {
      std::string_view next = rest;
      if (parts(take_character(next)) != between) break;
      rest = next;
    }
    const std::string_view piece = text.substr(0, text.size() - rest.size());
    if (between) {
      made += piece;
    } else {
      std::string_view tail = piece;
      take_character(tail);
      made += upper(piece.substr(0, piece.size() - tail.size())) + lower(tail);
    }
    text = rest;
  }
  return made;
}

Value string(const Value& value, const Arguments& given, Budget& budget) {
  const Bound bound("string", given, {});
  refuse_marked(value);
  return make_text(printed(value, budget), budget);
}

Value safe(const Value& value, const Arguments& given, Budget& budget) {
  const Bound bound("safe", given, {});
  return Marked{std::get<Text>(make_text(printed(value, budget), budget))};
}

Value replace(const Value& value, const Arguments& given, Budget& budget) {
  const Bound bound("replace", given, {"old", "new", "count"}, 2);
  return make_text(
      replaced(printed(value, budget), printed(*bound[0], budget), printed(*bound[1], budget),
               bound.unless_none(2) ? bound.integer(2, -1) : -1, budget),
      budget);
}

Value indent(const Value& value, const Arguments& given, Budget& budget) {
  const Bound bound("indent", given, {"width", "first", "blank"});
  refuse_marked(value);
  const std::string* text = text_in(value);
  if (!text) wrong("indent is given a " + std::string(kind_of(value)));
  std::string by;
  if (bound[0] && text_in(*bound[0])) {
    by = bound.text(0);
  } else {
    const std::int64_t width = bound.integer(0, 4);
    if (width > 1 << 16) too_much("an indent is too wide");
    by.assign(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
  }
  const std::string whole = *text + "\n";
  const auto lines = lines_of(whole, false);
  std::string made = bound.truth_of(1) ? by : "";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    budget.make(by.size() + lines[i].size() + 1);
    if (i > 0) made += "\n";
    if (i > 0 && (bound.truth_of(2) || !lines[i].empty())) made += by;
    made += lines[i];
  }
  return make_text(std::move(made), budget);
}

// Options of JSON in the order in which transformers' filter has them.
Value tojson(const Value& value, const Arguments& given, Budget& budget) {
  const Bound bound("tojson", given, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonForm form;
  form.ascii = bound.truth_of(0);
  form.sorted = bound.truth_of(3);
  if (const Value* indent = bound.unless_none(1)) {
    const std::int64_t width = text_in(*indent) ? 0 : bound.integer(1, 0);
    if (width > 1 << 10) too_much("an indent is too wide");
    form.indent =
        text_in(*indent)
            ? *text_in(*indent)
            : std::string(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
    form.item = ",";
  }
  if (const Value* separators = bound.unless_none(2)) {
    const Values two = all_of(*separators, budget);
    if (two.size() != 2 || !text_in(two[0]) || !text_in(two[1]))
      wrong("the separators of tojson are two texts");
    form.item = *text_in(two[0]);
    form.key = *text_in(two[1]);
  }
  return make_text(json_text(value, form, budget), budget);
}

// What Python's float() makes of a text; none: no number.
std::optional<double> real_of(std::string_view text) {
  text = stripped(text);
  for (std::string_view rest = text; !rest.empty();) {
    const char32_t c = take_character(rest);
    if (c < 0x80) continue;
    if (is_decimal(c)) not_known("a number with letters beyond ASCII");
    return std::nullopt;
  }
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](std::size_t at) {
      return at < text.size() && text[at] >= '0' && text[at] <= '9';
    };
    if (text[i] != '_')
      plain += text[i];
    else if (i == 0 || !digit(i - 1) || !digit(i + 1))
      return std::nullopt;
  }
  bool negative = false;
  std::string_view rest = plain;
  if (rest.starts_with('+') || rest.starts_with('-')) {
    negative = rest.front() == '-';
    rest.remove_prefix(1);
  }
  if (rest.empty() || rest.front() == '-') return std::nullopt;
  double number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error == std::errc::result_out_of_range) not_known("a number as " + plain);
  if (error != std::errc() || end != rest.data() + rest.size() || rest.find('(') != rest.npos)
    return std::nullopt;
  return negative ? -number : number;
}

std::int64_t cut_off(double number) {
  if (std::fabs(number) >= 9.2e18) not_known("an integer beyond 64 bits");
  return static_cast<std::int64_t>(number);
}

Value integer(const Value& value, const Arguments& given, Budget&) {
  refuse_marked(value);
  const Bound bound("int", given, {"default", "base"});
  if (bound[1]) not_known("int to a base");
  const Value otherwise = bound[0] ? *bound[0] : Value(std::int64_t{0});
  if (is<Undefined>(value)) wrong("int of a value that is undefined");
  if (const auto number = integer_in(value)) return *number;
  if (const auto* real = std::get_if<double>(&value)) {
    if (std::isinf(*real)) wrong("int of what has no end");
    return std::isnan(*real) ? otherwise : Value(cut_off(*real));
  }
  const std::string* text = text_in(value);
  const auto number = text ? real_of(*text) : std::nullopt;
  if (!number || std::isnan(*number) || std::isinf(*number)) return otherwise;
  if (std::fabs(*number) < 9e15) return cut_off(*number);
  std::string digits(stripped(*text));
  std::erase(digits, '_');
  if (digits.starts_with('+')) digits.erase(0, 1);
  std::int64_t exact = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), exact);
  if (error == std::errc::result_out_of_range) not_known("an integer beyond 64 bits");
  return end == digits.data() + digits.size() ? exact : cut_off(*number);
}

Value real(const Value& value, const Arguments& given, Budget&) {
  refuse_marked(value);
  const Bound bound("float", given, {"default"});
  if (is<Undefined>(value)) wrong("float of a value that is undefined");
  if (const auto number = number_in(value)) return *number;
  const std::string* text = text_in(value);
  const auto number = text ? real_of(*text) : std::nullopt;
  if (number) return *number;
  return bound[0] ? *bound[0] : Value(0.0);
}

Value round(const Value& value, const Arguments& given, Budget&) {
  const Bound bound("round", given, {"precision", "method"});
  const std::int64_t precision = bound.integer(0, 0);
  const std::string method = bound[1] ? bound.text(1) : "common";
  if (method != "common" && method != "ceil" && method != "floor")
    wrong("round has no method '" + method + "'");
  const auto number = number_in(value);
  if (!number) wrong("round of a " + std::string(kind_of(value)));
  if (precision < 0 || precision > 15) not_known("rounding to such a place");
  if (method == "common") {
    if (const auto whole = integer_in(value)) return *whole;
    char letters[400];
    std::snprintf(letters, sizeof letters, "%.*f", static_cast<int>(precision), *number);
    return std::strtod(letters, nullptr);
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (!std::isfinite(*number)) wrong(method + " of a number without end");
  if (integer_in(value) && std::fabs(*number) * scale > 9e15) not_known("rounding such a number");
  return (method == "ceil" ? std::ceil(*number * scale) : std::floor(*number * scale)) / scale +
         0.0;
}

Value absolute(const Value& value, const Arguments& given, Budget&) {
  const Bound bound("abs", given, {});
  if (!number_in(value)) wrong("abs of a " + std::string(kind_of(value)));
  if (const auto* real = std::get_if<double>(&value)) return std::fabs(*real);
  return *integer_in(value) < 0 ? with_sign("-", value) : with_sign("+", value);
}

Value format(const Value& value, const Arguments& given, Budget& budget) {
  if (!given.named.empty()) not_known("format with named values");
  refuse_marked(value);
  return formatted(printed(value, budget), make_list(given.positional, budget, true), budget);
}

}  // namespace

const FilterTable& text_filters() {
  static const FilterTable filters{{"trim", trim},
                                   {"upper", formed<upper>},
                                   {"lower", formed<lower>},
                                   {"capitalize", formed<capitalised>},
                                   {"title", formed<title_words>},
                                   {"string", string},
                                   {"safe", safe},
                                   {"replace", replace},
                                   {"indent", indent},
                                   {"tojson", tojson},
                                   {"int", integer},
                                   {"float", real},
                                   {"round", round},
                                   {"abs", absolute},
                                   {"format", format}};
  return filters;
}

Filter find_filter(std::string_view name) {
  for (const FilterTable* table : {&text_filters(), &list_filters()})
    if (const auto found = table->find(name); found != table->end()) return found->second;
  return nullptr;
}

}  // namespace gpunode::chat::detail
