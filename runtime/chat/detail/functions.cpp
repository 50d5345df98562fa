#include "runtime/chat/detail/functions.hpp"

#include <array>
#include <ctime>
#include <limits>

#include "runtime/chat/detail/arguments.hpp"
#include "runtime/chat/detail/value_text.hpp"

namespace gpunode::chat::detail {
namespace {

using namespace std::chrono;

constexpr std::int64_t kLongestRange = 100'000;  // as Jinja's sandbox has it

Value range(const Arguments& given, Budget&) {
  const Bound bound("range", given, {"start", "stop", "step"}, 1, false);
  Range made{0, bound.integer(0, 0), bound.integer(2, 1)};
  if (bound[1]) made = {made.stop, bound.integer(1, 0), made.step};
  if (made.step == 0) wrong("the step of a range is zero");
  constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max() / 4;
  for (const std::int64_t one : {made.start, made.stop, made.step})
    if (one > kFar || one < -kFar) not_known("a range as far as this one");
  if (made.size() > kLongestRange)
    too_much("a range is longer than " + std::to_string(kLongestRange));
  return std::make_shared<const Range>(made);
}

// Python's dict(): of a dict or of pairs, and of what is named.
Dict dict_of(const Arguments& given, Budget& budget) {
  const Arguments unnamed{given.positional, {}};
  const Bound bound("dict", unnamed, {"items"});
  Dict made;
  if (const Dict* other = bound[0] ? dict_in(*bound[0]) : nullptr) {
    for (const auto& [key, value] : other->items()) made.put(key, value, budget);
  } else if (bound[0]) {
    const IteratorPointer items = iterate(*bound[0], budget);
    while (const auto item = items->next()) {
      const Values pair = all_of(*item, budget);
      if (pair.size() != 2) wrong("dict is given what is no pair");
      made.put(pair[0], pair[1], budget);
    }
  }
  for (const auto& [name, value] : given.named) made.put(make_text(name, budget), value, budget);
  return made;
}

[[noreturn]] Value raise_exception(const Arguments& given, Budget& budget) {
  const Bound bound("raise_exception", given, {"message"}, 1);
  wrong("the template refuses: " + printed(*bound[0], budget));
}

std::string two(unsigned number) {
  return {static_cast<char>('0' + number / 10 % 10), static_cast<char>('0' + number % 10)};
}

std::string without_zero(std::string digits) {
  return digits.size() > 1 && digits[0] == '0' ? digits.substr(1) : digits;
}

// One conversion of strftime, in English.
std::string time_part(char what, local_seconds now) {
  constexpr std::array kDays{"Sunday",   "Monday", "Tuesday", "Wednesday",
                             "Thursday", "Friday", "Saturday"};
  constexpr std::array kMonths{"January",   "February", "March",    "April",
                               "May",       "June",     "July",     "August",
                               "September", "October",  "November", "December"};
  const auto day = floor<days>(now);
  const year_month_day date(day);
  const hh_mm_ss time(now - day);
  const std::string month = kMonths[unsigned{date.month()} - 1];
  const std::string weekday_name = kDays[weekday(day).c_encoding()];
  const auto hour = static_cast<unsigned>(time.hours().count());
  const auto minute = static_cast<unsigned>(time.minutes().count());
  const auto year = std::to_string(int{date.year()});
  switch (what) {
    case 'Y':
      return year;
    case 'y':
      return two(static_cast<unsigned>(int{date.year()} % 100));
    case 'm':
      return two(unsigned{date.month()});
    case 'B':
      return month;
    case 'b':
      return month.substr(0, 3);
    case 'd':
      return two(unsigned{date.day()});
    case 'e':
      return unsigned{date.day()} < 10 ? " " + two(unsigned{date.day()}).substr(1)
                                       : two(unsigned{date.day()});
    case 'A':
      return weekday_name;
    case 'a':
      return weekday_name.substr(0, 3);
    case 'H':
      return two(hour);
    case 'I':
      return two(hour % 12 == 0 ? 12 : hour % 12);
    case 'M':
      return two(minute);
    case 'S':
      return two(static_cast<unsigned>(time.seconds().count()));
    case 'p':
      return hour < 12 ? "AM" : "PM";
    case 'F':
      return year + "-" + two(unsigned{date.month()}) + "-" + two(unsigned{date.day()});
    case 'T':
      return two(hour) + ":" + two(minute) + ":" +
             two(static_cast<unsigned>(time.seconds().count()));
    case '%':
      return "%";
    default:
      not_known(std::string("%") + what + " of strftime_now");
  }
}

Value strftime_now(const Arguments& given, local_seconds now, Budget& budget) {
  const Bound bound("strftime_now", given, {"format"}, 1);
  const std::string& form = bound.text(0);
  std::string made;
  for (std::size_t at = 0; at < form.size(); ++at) {
    if (form[at] != '%') {
      made += form[at];
      continue;
    }
    const bool bare = at + 1 < form.size() && form[at + 1] == '-';
    at += bare ? 2 : 1;
    const std::string part = time_part(at < form.size() ? form[at] : ' ', now);
    made += bare ? without_zero(part) : part;
  }
  return make_text(std::move(made), budget);
}

}  // namespace

std::optional<Value> global_function(const std::string& name, local_seconds now,
                                     Namespaces& namespaces, Budget& budget) {
  std::function<Value(const Arguments&)> call;
  if (name == "range") {
    call = [&budget](const Arguments& given) { return range(given, budget); };
  } else if (name == "dict") {
    call = [&budget](const Arguments& given) -> Value {
      return std::make_shared<const Dict>(dict_of(given, budget));
    };
  } else if (name == "namespace") {
    call = [&](const Arguments& given) -> Value {
      budget.make(sizeof(Namespace) + sizeof(Value));
      namespaces.push_back(std::make_shared<Namespace>(Namespace{dict_of(given, budget)}));
      return namespaces.back();
    };
  } else if (name == "raise_exception") {
    call = [&budget](const Arguments& given) -> Value { raise_exception(given, budget); };
  } else if (name == "strftime_now") {
    call = [now, &budget](const Arguments& given) { return strftime_now(given, now, budget); };
  } else if (name == "cycler" || name == "joiner" || name == "lipsum") {
    not_known("the function '" + name + "'");
  } else {
    return std::nullopt;
  }
  return make_callable(name, std::move(call), None{}, budget);
}

}  // namespace gpunode::chat::detail
