#include "runtime/chat/detail/tests.hpp"

#include <map>

#include "runtime/chat/detail/arguments.hpp"
#include "runtime/chat/detail/characters.hpp"
#include "runtime/chat/detail/operators.hpp"
#include "runtime/chat/detail/value_text.hpp"

namespace gpunode::chat::detail {
namespace {

void expect_nothing(const Arguments& given) {
  const Bound bound("a test", given, {});
}

template <bool (*holds)(const Value&)>
bool of_kind(const Value& value, const Arguments& given, Budget&) {
  expect_nothing(given);
  return holds(value);
}

bool defined(const Value& value) {
  return !is<Undefined>(value);
}
bool boolean(const Value& value) {
  return is<bool>(value);
}
template <bool wanted>
bool flag(const Value& value) {
  const auto* flag = std::get_if<bool>(&value);
  return flag && *flag == wanted;
}
bool number(const Value& value) {
  return number_in(value).has_value();
}
bool text(const Value& value) {
  return text_in(value) || is<Marked>(value);
}
bool mapping(const Value& value) {
  return is<DictPointer>(value);
}
bool sequence(const Value& value) {
  return length_of(value) && !is<std::shared_ptr<const View>>(value);
}
bool callable(const Value& value) {
  return is<Undefined>(value) || is<std::shared_ptr<const Callable>>(value) ||
         is<std::shared_ptr<Loop>>(value);
}

template <std::int64_t rest>
bool parity(const Value& value, const Arguments& given, Budget& budget) {
  expect_nothing(given);
  return equal(arithmetic("%", value, std::int64_t{2}, budget), rest, budget);
}

bool divisible(const Value& value, const Arguments& given, Budget& budget) {
  const Bound bound("divisibleby", given, {"num"}, 1);
  return equal(arithmetic("%", value, *bound[0], budget), std::int64_t{0}, budget);
}

// At least one letter of the form, and none of another.
template <bool upper>
bool formed(const Value& value, const Arguments& given, Budget& budget) {
  expect_nothing(given);
  const std::string text = printed(value, budget);
  bool any = false;
  for (std::string_view rest = text; !rest.empty();) {
    const char32_t c = take_character(rest);
    if (is_title(c) || (upper ? is_lower(c) : is_upper(c))) return false;
    any = any || is_upper(c) || is_lower(c);
  }
  return any;
}

constexpr char kEqual[] = "==", kUnequal[] = "!=", kLess[] = "<", kLessEqual[] = "<=";
constexpr char kMore[] = ">", kMoreEqual[] = ">=";

template <const char* sign>
bool compared(const Value& value, const Arguments& given, Budget& budget) {
  const Bound bound(std::string("the test ") + sign, given, {"other"}, 1, false);
  return compare(sign, value, *bound[0], budget);
}

bool in(const Value& value, const Arguments& given, Budget& budget) {
  const Bound bound("in", given, {"seq"}, 1);
  return contains(*bound[0], value, budget);
}

// Values that there is only one of are the same where they are equal.
bool same(const Value& value, const Arguments& given, Budget& budget) {
  const Bound bound("sameas", given, {"other"}, 1);
  for (const Value* one : {&value, bound[0]})
    if (is<bool>(*one) || is<None>(*one))
      return value.index() == bound[0]->index() && equal(value, *bound[0], budget);
  not_known("the test 'sameas' of such values");
}

}  // namespace

Test find_test(std::string_view name) {
  static const std::map<std::string_view, Test> tests{{"defined", of_kind<defined>},
                                                      {"undefined", of_kind<is<Undefined>>},
                                                      {"none", of_kind<is<None>>},
                                                      {"boolean", of_kind<boolean>},
                                                      {"true", of_kind<flag<true>>},
                                                      {"false", of_kind<flag<false>>},
                                                      {"integer", of_kind<is<std::int64_t>>},
                                                      {"float", of_kind<is<double>>},
                                                      {"number", of_kind<number>},
                                                      {"string", of_kind<text>},
                                                      {"mapping", of_kind<mapping>},
                                                      {"sequence", of_kind<sequence>},
                                                      {"iterable", of_kind<iterable>},
                                                      {"callable", of_kind<callable>},
                                                      {"odd", parity<1>},
                                                      {"even", parity<0>},
                                                      {"divisibleby", divisible},
                                                      {"lower", formed<false>},
                                                      {"upper", formed<true>},
                                                      {"==", compared<kEqual>},
                                                      {"eq", compared<kEqual>},
                                                      {"equalto", compared<kEqual>},
                                                      {"!=", compared<kUnequal>},
                                                      {"ne", compared<kUnequal>},
                                                      {"<", compared<kLess>},
                                                      {"lt", compared<kLess>},
                                                      {"lessthan", compared<kLess>},
                                                      {"<=", compared<kLessEqual>},
                                                      {"le", compared<kLessEqual>},
                                                      {">", compared<kMore>},
                                                      {"gt", compared<kMore>},
                                                      {"greaterthan", compared<kMore>},
                                                      {">=", compared<kMoreEqual>},
                                                      {"ge", compared<kMoreEqual>},
                                                      {"in", in},
                                                      {"sameas", same}};
  const auto found = tests.find(name);
  return found == tests.end() ? nullptr : found->second;
}

}  // namespace gpunode::chat::detail
