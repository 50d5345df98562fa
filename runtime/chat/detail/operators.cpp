#include "runtime/chat/detail/operators.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/chat/detail/characters.hpp"
#include "runtime/chat/detail/methods.hpp"
#include "runtime/chat/detail/value_text.hpp"

namespace gpunode::chat::detail {
namespace {

[[noreturn]] void no_meaning(std::string_view sign, const Value& left, const Value& right) {
  for (const Value* side : {&left, &right})
    if (const auto* nothing = std::get_if<Undefined>(side))
      wrong("'" + (nothing->what ? *nothing->what : std::string("a value")) + "' is undefined");
  wrong("'" + std::string(sign) + "' has no meaning between a " + std::string(kind_of(left)) +
        " and a " + std::string(kind_of(right)));
}

void expect_small(bool overflow) {
  if (overflow) not_known("an integer beyond 64 bits");
}

std::int64_t power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) expect_small(__builtin_mul_overflow(result, base, &result));
    if (exponent > 1) expect_small(__builtin_mul_overflow(base, base, &base));
  }
  return result;
}

Value of_integers(std::string_view sign, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (sign == "+" || sign == "-" || sign == "*") {
    expect_small(sign == "+"   ? __builtin_add_overflow(a, b, &result)
                 : sign == "-" ? __builtin_sub_overflow(a, b, &result)
                               : __builtin_mul_overflow(a, b, &result));
    return result;
  }
  if (sign == "**") {
    if (b >= 0) {
      if (a == 0 || a == 1 || a == -1) return a == -1 && b % 2 == 0 ? 1 : b == 0 ? 1 : a;
      return power(a, std::min<std::int64_t>(b, 64));
    }
    if (a == 0) wrong("a division by zero");
    return std::pow(static_cast<double>(a), static_cast<double>(b));
  }
  if (b == 0) wrong("a division by zero");
  if (sign == "/")
    return static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b));
  if (b == -1) return sign == "%" ? Value(std::int64_t{0}) : of_integers("-", 0, a);
  const std::int64_t rest = a % b;
  const bool down = rest != 0 && (rest < 0) != (b < 0);
  if (sign == "%") return down ? rest + b : rest;
  return a / b - (down ? 1 : 0);
}

Value of_reals(std::string_view sign, double a, double b) {
  if (sign == "+") return a + b;
  if (sign == "-") return a - b;
  if (sign == "*") return a * b;
  if (sign == "**") {
    if (a == 0 && b < 0) wrong("a division by zero");
    const double result = std::pow(a, b);
    if (std::isnan(result) && !std::isnan(a) && !std::isnan(b)) not_known("a complex number");
    if (std::isinf(result) && !std::isinf(a) && !std::isinf(b)) wrong("a number is too large");
    return result;
  }
  if (b == 0) wrong("a division by zero");
  if (sign == "/") return a / b;
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) {
    rest += b;
    quotient -= 1;
  }
  if (rest == 0) rest = std::copysign(0.0, b);
  if (sign == "%") return rest;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double down = std::floor(quotient);
  return quotient - down > 0.5 ? down + 1 : down;
}

Value repeated(const Value& value, std::int64_t times, Budget& budget) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
  if (const std::string* text = text_in(value)) {
    if (count > 0 && text->size() > (std::size_t{1} << 40) / count) too_much("a text is too long");
    budget.make(text->size() * count);
    std::string made;
    for (std::size_t i = 0; i < count && !text->empty(); ++i) made += *text;
    return make_text(std::move(made), budget);
  }
  const Sequence& list = *std::get<SequencePointer>(value);
  if (count > 0 && list.items.size() > kSteps / count) too_much("a list is too long");
  budget.step(list.items.size() * count);
  budget.make(list.items.size() * count * sizeof(Value));
  Values items;
  for (std::size_t i = 0; i < count && !list.items.empty(); ++i)
    items.insert(items.end(), list.items.begin(), list.items.end());
  return make_list(std::move(items), budget, list.tuple);
}

bool repeats(const Value& value) {
  return text_in(value) || is<SequencePointer>(value);
}

Value lists_joined(const Sequence& left, const Sequence& right, Budget& budget) {
  budget.step(left.items.size() + right.items.size());
  Values items = left.items;
  items.insert(items.end(), right.items.begin(), right.items.end());
  return make_list(std::move(items), budget, left.tuple);
}

// A place in something of that size, counted from the end where negative; none: outside.
std::optional<std::size_t> place_of(std::int64_t index, std::int64_t size) {
  if (index < 0) index += size;
  if (index < 0 || index >= size) return std::nullopt;
  return static_cast<std::size_t>(index);
}

std::optional<Value> item_at(const Value& value, std::int64_t index, Budget& budget) {
  if (const auto* list = std::get_if<SequencePointer>(&value)) {
    const auto place = place_of(index, static_cast<std::int64_t>((*list)->items.size()));
    return place ? std::optional((*list)->items[*place]) : std::nullopt;
  }
  if (const auto* range = std::get_if<std::shared_ptr<const Range>>(&value)) {
    const auto place = place_of(index, (*range)->size());
    return place ? std::optional<Value>((*range)->at(static_cast<std::int64_t>(*place)))
                 : std::nullopt;
  }
  const std::string* text = text_in(value);
  if (!text) return std::nullopt;
  budget.step(text->size() / 64);
  const auto place = place_of(index, character_count(*text));
  if (!place) return std::nullopt;
  std::string_view rest = *text;
  for (std::size_t i = 0; i < *place; ++i) take_character(rest);
  return make_text(take_character_bytes(rest), budget);
}

// The places that start:stop:step names in something of that size.
Range places(std::int64_t size, const Value& start, const Value& stop, const Value& step) {
  const auto given = [](const Value& value) -> std::optional<std::int64_t> {
    if (is<None>(value)) return std::nullopt;
    const auto number = integer_in(value);
    if (!number) wrong("the bounds of a slice are integers");
    return number;
  };
  const std::int64_t by =
      std::clamp<std::int64_t>(given(step).value_or(1), -kSteps * 16, kSteps * 16);
  if (by == 0) wrong("the step of a slice is zero");
  const std::int64_t low = by < 0 ? -1 : 0, high = by < 0 ? size - 1 : size;
  const auto bound = [&](const Value& value, std::int64_t otherwise) {
    auto at = given(value);
    if (!at) return otherwise;
    if (*at < 0) *at += size;
    return std::clamp(*at, low, high);
  };
  return {bound(start, by < 0 ? high : low), bound(stop, by < 0 ? low : high), by};
}

std::string integer_text(const Value& value) {
  if (const auto number = integer_in(value)) return std::to_string(*number);
  const auto real = number_in(value);
  if (!real || std::isnan(*real) || std::isinf(*real)) wrong("%d is given no number");
  if (std::fabs(*real) >= 9e18) not_known("an integer beyond 64 bits");
  return std::to_string(static_cast<std::int64_t>(*real));
}

}  // namespace

Value arithmetic(std::string_view sign, const Value& left, const Value& right, Budget& budget) {
  budget.step();
  for (const Value* side : {&left, &right}) refuse_marked(*side);
  const auto a = integer_in(left), b = integer_in(right);
  if (a && b) return of_integers(sign, *a, *b);
  const auto x = number_in(left), y = number_in(right);
  if (x && y) return of_reals(sign, *x, *y);
  if (sign == "%" && text_in(left)) return formatted(*text_in(left), right, budget);
  if (sign == "*" && repeats(left) && b) return repeated(left, *b, budget);
  if (sign == "*" && repeats(right) && a) return repeated(right, *a, budget);
  if (sign == "+" && text_in(left) && text_in(right)) {
    budget.make(text_in(left)->size() + text_in(right)->size());
    return make_text(*text_in(left) + *text_in(right), budget);
  }
  if (sign == "+" && is<SequencePointer>(left) && is<SequencePointer>(right)) {
    const Sequence &one = *std::get<SequencePointer>(left),
                   &other = *std::get<SequencePointer>(right);
    if (one.tuple == other.tuple) return lists_joined(one, other, budget);
  }
  const bool keys = is<std::shared_ptr<const View>>(left) || is<std::shared_ptr<const View>>(right);
  if (sign == "-" && keys) not_known("the difference of views of dicts");
  no_meaning(sign, left, right);
}

Value with_sign(std::string_view sign, const Value& value) {
  const auto number = integer_in(value);
  if (number) return sign == "-" ? of_integers("-", 0, *number) : Value(*number);
  if (const auto* real = std::get_if<double>(&value)) return sign == "-" ? -*real : *real;
  no_meaning(sign, value, value);
}

bool compare(std::string_view sign, const Value& left, const Value& right, Budget& budget) {
  if (sign == "==") return equal(left, right, budget);
  if (sign == "!=") return !equal(left, right, budget);
  if (sign == "<") return less(left, right, budget);
  if (sign == "<=") return less(left, right, budget, true);
  if (sign == ">") return less(right, left, budget);
  if (sign == ">=") return less(right, left, budget, true);
  return contains(right, left, budget) == (sign == "in");
}

bool contains(const Value& whole, const Value& part, Budget& budget) {
  for (const Value* side : {&whole, &part}) refuse_marked(*side);
  if (const std::string* text = text_in(whole)) {
    const std::string* piece = text_in(part);
    if (!piece) wrong("a " + std::string(kind_of(part)) + " is in no text");
    budget.search(text->size(), piece->size());
    return text->find(*piece) != text->npos;
  }
  const View* view = is<std::shared_ptr<const View>>(whole)
                         ? std::get<std::shared_ptr<const View>>(whole).get()
                         : nullptr;
  const Dict* dict = view && view->of == View::Of::keys ? view->dict.get() : dict_in(whole);
  if (dict) {
    if (!hashable(part)) wrong("a " + std::string(kind_of(part)) + " cannot be a key");
    return dict->find(part, budget);
  }
  const IteratorPointer iterator = iterate(whole, budget);
  while (const auto item = iterator->next())
    if (equal(*item, part, budget)) return true;
  return false;
}

Value subscript(const Value& value, const Value& key, Budget& budget) {
  budget.step();
  for (const Value* side : {&value, &key}) refuse_marked(*side);
  if (const auto* nothing = std::get_if<Undefined>(&value))
    wrong("'" + (nothing->what ? *nothing->what : std::string("a value")) + "' is undefined");
  if (const Dict* dict = dict_in(value)) {
    if (const Value* found = dict->find(key, budget)) return *found;
  } else if (const auto index = integer_in(key)) {
    if (auto item = item_at(value, *index, budget)) return *std::move(item);
  }
  if (const std::string* name = text_in(key))
    if (auto found = own_attribute(value, *name, budget)) return *std::move(found);
  return undefined(text_in(key) ? *text_in(key) : std::string());
}

Value attribute(const Value& value, const std::string& name, Budget& budget) {
  budget.step();
  refuse_marked(value);
  if (const auto* nothing = std::get_if<Undefined>(&value))
    wrong("'" + (nothing->what ? *nothing->what : std::string("a value")) + "' is undefined");
  if (auto found = own_attribute(value, name, budget)) return *std::move(found);
  if (const Dict* dict = dict_in(value))
    if (const Value* found = dict->find(name)) return *found;
  return undefined(name);
}

Value slice(const Value& value, const Value& start, const Value& stop, const Value& step,
            Budget& budget) {
  const auto size = length_of(value);
  const bool text = text_in(value), list = is<SequencePointer>(value);
  const bool range = is<std::shared_ptr<const Range>>(value);
  if (!text && !list && !range) wrong("a " + std::string(kind_of(value)) + " has no slices");
  const Range which = places(*size, start, stop, step);
  if (range) {
    const Range& of = *std::get<std::shared_ptr<const Range>>(value);
    constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max() / 4;
    std::int64_t by = 0;
    if (__builtin_mul_overflow(of.step, which.step, &by) || by > kFar || by < -kFar)
      not_known("a range as far as this one");
    return std::make_shared<const Range>(Range{of.at(which.start), of.at(which.stop), by});
  }
  budget.step(static_cast<std::size_t>(list ? which.size() : *size / 8));
  if (list) {
    const Sequence& from = *std::get<SequencePointer>(value);
    Values items;
    for (std::int64_t i = 0; i < which.size(); ++i)
      items.push_back(from.items[static_cast<std::size_t>(which.at(i))]);
    return make_list(std::move(items), budget, from.tuple);
  }
  budget.make(4 * text_in(value)->size());
  const std::vector<char32_t> from = characters_of(*text_in(value));
  std::vector<char32_t> taken;
  for (std::int64_t i = 0; i < which.size(); ++i)
    taken.push_back(from[static_cast<std::size_t>(which.at(i))]);
  return make_text(text_of(taken), budget);
}

Value formatted(std::string_view pattern, const Value& arguments, Budget& budget) {
  const auto* list = std::get_if<SequencePointer>(&arguments);
  const bool several = list && (*list)->tuple;
  const Values given = several ? (*list)->items : Values{arguments};
  std::size_t used = 0;
  std::string made;
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    if (pattern[at] != '%') {
      made += pattern[at];
      continue;
    }
    const char what = ++at < pattern.size() ? pattern[at] : ' ';
    if (what == '%') {
      made += '%';
      continue;
    }
    if (what != 's' && what != 'd' && what != 'i') not_known("a text's form as this one's");
    if (used == given.size()) wrong("a text is given too few values for its form");
    made += what == 's' ? printed(given[used], budget) : integer_text(given[used]);
    ++used;
  }
  const bool mapping =
      !several && (list || is<DictPointer>(arguments) || is<Undefined>(arguments) ||
                   is<std::shared_ptr<const Range>>(arguments));
  if (used < given.size() && !mapping) wrong("a text is given too many values for its form");
  return make_text(std::move(made), budget);
}

}  // namespace gpunode::chat::detail
