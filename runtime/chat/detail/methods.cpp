#include "runtime/chat/detail/methods.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "runtime/chat/detail/arguments.hpp"
#include "runtime/chat/detail/characters.hpp"

namespace gpunode::chat::detail {
namespace {

// A text's method: the text, what it is given, and the method's name.
using TextMethod = Value (*)(const std::string&, const Arguments&, const std::string&, Budget&);

template <class Names, class Name>
bool has(const Names& names, const Name& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Value strip(const std::string& text, const Arguments& given, const std::string& name,
            Budget& budget) {
  const Bound bound(name, given, {"chars"}, 0, false);
  const Sides sides{.left = name != "rstrip", .right = name != "lstrip"};
  const auto taken =
      bound.unless_none(0) ? stripped(text, bound.text(0), sides) : stripped(text, sides);
  return make_text(std::string(taken), budget);
}

Value form(const std::string& text, const Arguments& given, const std::string& name,
           Budget& budget) {
  const Bound bound(name, given, {});
  budget.step(text.size() / 16);
  return make_text(name == "upper"   ? upper(text)
                   : name == "lower" ? lower(text)
                   : name == "title" ? titled(text)
                                     : capitalised(text),
                   budget);
}

Value begins_or_ends(const std::string& text, const Arguments& given, const std::string& name,
                     Budget&) {
  const Bound bound(name, given, {"prefix", "start", "end"}, 1, false);
  if (bound[1]) not_known("'" + name + "' from a place on");
  const auto fits = [&](const Value& part) {
    const std::string* piece = text_in(part);
    if (!piece) wrong(name + " is given no text");
    return name == "startswith" ? text.starts_with(*piece) : text.ends_with(*piece);
  };
  const auto* list = std::get_if<SequencePointer>(bound[0]);
  if (list && (*list)->tuple)
    return std::any_of((*list)->items.begin(), (*list)->items.end(), fits);
  return fits(*bound[0]);
}

Value without(const std::string& text, const Arguments& given, const std::string& name,
              Budget& budget) {
  const Bound bound(name, given, {"part"}, 1, false);
  std::string_view rest = text;
  const std::string& part = bound.text(0);
  if (name == "removeprefix" && rest.starts_with(part)) rest.remove_prefix(part.size());
  if (name == "removesuffix" && rest.ends_with(part)) rest.remove_suffix(part.size());
  return make_text(std::string(rest), budget);
}

Value replace(const std::string& text, const Arguments& given, const std::string& name,
              Budget& budget) {
  const Bound bound(name, given, {"old", "new", "count"}, 2, false);
  return make_text(replaced(text, bound.text(0), bound.text(1), bound.integer(2, -1), budget),
                   budget);
}

Value find(const std::string& text, const Arguments& given, const std::string& name,
           Budget& budget) {
  const Bound bound(name, given, {"part", "start", "end"}, 1, false);
  if (bound[1]) not_known("'" + name + "' from a place on");
  budget.search(text.size(), bound.text(0).size());
  const auto at = name == "find" ? text.find(bound.text(0)) : text.rfind(bound.text(0));
  return at == text.npos ? std::int64_t{-1} : character_count(std::string_view(text).substr(0, at));
}

Value count(const std::string& text, const Arguments& given, const std::string& name,
            Budget& budget) {
  const Bound bound(name, given, {"part", "start", "end"}, 1, false);
  if (bound[1]) not_known("'" + name + "' from a place on");
  const std::string& part = bound.text(0);
  budget.search(text.size(), part.size());
  if (part.empty()) return character_count(text) + 1;
  std::int64_t found = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

Value join(const std::string& text, const Arguments& given, const std::string& name,
           Budget& budget) {
  const Bound bound(name, given, {"parts"}, 1, false);
  std::string whole;
  bool first = true;
  for (const Value& part : all_of(*bound[0], budget)) {
    refuse_marked(part);
    const std::string* piece = text_in(part);
    if (!piece) wrong("join is given a " + std::string(kind_of(part)));
    budget.make(text.size() + piece->size());
    if (!std::exchange(first, false)) whole += text;
    whole += *piece;
  }
  return make_text(std::move(whole), budget);
}

std::vector<std::string_view> words(std::string_view text, std::int64_t most) {
  std::vector<std::string_view> parts;
  for (;;) {
    text = stripped(text, {.left = true, .right = false});
    if (text.empty()) return parts;
    if (most >= 0 && static_cast<std::int64_t>(parts.size()) == most) {
      parts.push_back(text);
      return parts;
    }
    std::string_view rest = text;
    std::size_t length = 0;
    while (!rest.empty() && !is_space(take_character(rest))) length = text.size() - rest.size();
    parts.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
}

std::vector<std::string_view> words_from_the_end(std::string_view text, std::int64_t most) {
  std::vector<std::string_view> parts;
  for (;;) {
    text = stripped(text, {.left = false, .right = true});
    if (text.empty()) break;
    if (most >= 0 && static_cast<std::int64_t>(parts.size()) == most) {
      parts.push_back(text);
      break;
    }
    std::size_t at = 0;  // behind the last space
    for (std::string_view rest = text; !rest.empty();)
      if (is_space(take_character(rest))) at = text.size() - rest.size();
    parts.push_back(text.substr(at));
    text = text.substr(0, at);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> cut(std::string_view text, std::string_view by, std::int64_t most,
                                  bool from_the_end) {
  std::vector<std::string_view> parts;
  while (most < 0 || static_cast<std::int64_t>(parts.size()) < most) {
    const auto at = from_the_end ? text.rfind(by) : text.find(by);
    if (at == text.npos) break;
    parts.push_back(from_the_end ? text.substr(at + by.size()) : text.substr(0, at));
    text = from_the_end ? text.substr(0, at) : text.substr(at + by.size());
  }
  parts.push_back(text);
  if (from_the_end) std::reverse(parts.begin(), parts.end());
  return parts;
}

Value texts(const std::vector<std::string_view>& parts, Budget& budget) {
  Values items;
  for (const std::string_view part : parts) items.push_back(make_text(std::string(part), budget));
  return make_list(std::move(items), budget);
}

Value split(const std::string& text, const Arguments& given, const std::string& name,
            Budget& budget) {
  const Bound bound(name, given, {"sep", "maxsplit"});
  const std::int64_t most = bound.integer(1, -1);
  const bool from_the_end = name == "rsplit";
  budget.step(text.size() / 16);
  if (!bound.unless_none(0)) {
    if (from_the_end && most >= 0)
      budget.step(text.size() * static_cast<std::size_t>(std::min<std::int64_t>(most, 1 << 20)));
    return texts(from_the_end && most >= 0 ? words_from_the_end(text, most) : words(text, most),
                 budget);
  }
  if (bound.text(0).empty()) wrong(name + " is given an empty text");
  budget.search(text.size(), bound.text(0).size());
  return texts(cut(text, bound.text(0), most, from_the_end), budget);
}

Value splitlines(const std::string& text, const Arguments& given, const std::string& name,
                 Budget& budget) {
  const Bound bound(name, given, {"keepends"});
  budget.step(text.size() / 16);
  return texts(lines_of(text, bound.truth_of(0)), budget);
}

Value isdigit(const std::string& text, const Arguments& given, const std::string& name, Budget&) {
  const Bound bound(name, given, {});
  if (std::any_of(text.begin(), text.end(), [](char c) { return static_cast<signed char>(c) < 0; }))
    not_known("isdigit of letters beyond ASCII");
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

const std::map<std::string_view, TextMethod>& text_methods() {
  static const std::map<std::string_view, TextMethod> methods{{"strip", strip},
                                                              {"lstrip", strip},
                                                              {"rstrip", strip},
                                                              {"upper", form},
                                                              {"lower", form},
                                                              {"title", form},
                                                              {"capitalize", form},
                                                              {"startswith", begins_or_ends},
                                                              {"endswith", begins_or_ends},
                                                              {"removeprefix", without},
                                                              {"removesuffix", without},
                                                              {"replace", replace},
                                                              {"find", find},
                                                              {"rfind", find},
                                                              {"count", count},
                                                              {"join", join},
                                                              {"split", split},
                                                              {"rsplit", split},
                                                              {"splitlines", splitlines},
                                                              {"isdigit", isdigit}};
  return methods;
}

// Python's other methods of texts.
constexpr std::array kOtherTextMethods{
    "casefold",    "center",  "encode",     "expandtabs", "format",       "format_map", "index",
    "isalnum",     "isalpha", "isascii",    "isdecimal",  "isidentifier", "islower",    "isnumeric",
    "isprintable", "isspace", "istitle",    "isupper",    "ljust",        "maketrans",  "partition",
    "rindex",      "rjust",   "rpartition", "swapcase",   "translate",    "zfill"};
constexpr std::array kOtherMethods{"copy", "count", "index", "fromkeys", "mapping", "isdisjoint"};
constexpr std::array kNumbers{
    "real",       "imag",      "numerator", "denominator", "conjugate",
    "bit_length", "bit_count", "to_bytes",  "from_bytes",  "as_integer_ratio",
    "is_integer", "hex",       "fromhex"};
constexpr std::array kChanges{"clear",   "pop",    "popitem", "setdefault", "update", "append",
                              "reverse", "insert", "sort",    "extend",     "remove"};

std::optional<Value> dict_method(const Value& value, const std::string& name, Budget& budget) {
  const auto dict = std::get<DictPointer>(value);
  if (name == "get")
    return make_callable(
        name,
        [dict, &budget](const Arguments& given) -> Value {
          const Bound bound("get", given, {"key", "default"}, 1, false);
          if (!hashable(*bound[0]))
            wrong("a " + std::string(kind_of(*bound[0])) + " cannot be a key");
          if (const Value* found = dict->find(*bound[0], budget)) return *found;
          return bound[1] ? *bound[1] : None{};
        },
        value, budget);
  constexpr std::array<std::string_view, 3> kViews{"keys", "values", "items"};
  const auto which = std::find(kViews.begin(), kViews.end(), name);
  if (which == kViews.end()) return std::nullopt;
  const auto of = static_cast<View::Of>(which - kViews.begin());
  return make_callable(
      name,
      [dict, of](const Arguments& given) -> Value {
        const Bound bound("a dict's method", given, {});
        return std::make_shared<const View>(View{dict, of});
      },
      value, budget);
}

}  // namespace

std::optional<Value> own_attribute(const Value& value, const std::string& name, Budget& budget) {
  if (const std::string* text = text_in(value)) {
    const auto found = text_methods().find(name);
    if (found != text_methods().end())
      return make_callable(
          name,
          [whole = value, text, name, call = found->second, &budget](const Arguments& given) {
            return call(*text, given, name, budget);
          },
          value, budget);
    if (has(kOtherTextMethods, name)) not_known("the method '" + name + "' of texts");
  } else if (is<DictPointer>(value)) {
    if (auto found = dict_method(value, name, budget)) return found;
    if (name == "copy" || name == "fromkeys") not_known("the method '" + name + "' of dicts");
    if (name == "clear" || name == "pop" || name == "popitem" || name == "setdefault" ||
        name == "update")
      return undefined(name);
  } else if (const auto* list = std::get_if<SequencePointer>(&value)) {
    if (!(*list)->tuple && has(kChanges, name)) return undefined(name);
    if (has(kOtherMethods, name)) not_known("the method '" + name + "' of lists");
  } else if (const auto* names = std::get_if<NamespacePointer>(&value)) {
    const Value* found = (*names)->attributes.find(name);
    if (found && name.starts_with('_')) return undefined(name);
    return found ? std::optional(*found) : std::nullopt;
  } else if (const auto* loop = std::get_if<std::shared_ptr<Loop>>(&value)) {
    return (*loop)->attribute(name);
  } else if (number_in(value)) {
    if (has(kNumbers, name)) not_known("the attribute '" + name + "' of numbers");
  } else if (has(kOtherMethods, name) || name == "start" || name == "stop" || name == "step" ||
             name == "send" || name == "throw" || name == "close" || name.starts_with("gi_")) {
    if (!is<None>(value))
      not_known("the attribute '" + name + "' of a " + std::string(kind_of(value)));
  }
  return std::nullopt;
}

bool known_method_elsewhere(std::string_view name) {
  return has(kOtherTextMethods, name) || name == "copy" || name == "fromkeys";
}

std::string replaced(std::string_view text, std::string_view old, std::string_view by,
                     std::int64_t count, Budget& budget) {
  std::string made;
  budget.search(text.size(), old.size());
  const auto put = [&](std::string_view part) {
    budget.make(part.size());
    made += part;
  };
  for (; count != 0; --count) {
    const auto at = text.find(old);
    if (at == text.npos) break;
    put(text.substr(0, at));
    put(by);
    text.remove_prefix(at + old.size());
    if (!old.empty()) continue;
    if (text.empty()) return made;
    put(take_character_bytes(text));
    if (count == 1) break;
  }
  put(text);
  return made;
}

std::vector<std::string_view> lines_of(std::string_view text, bool with_ends) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    std::string_view rest = text;
    std::size_t end = 0;
    while (!rest.empty() && (end = line_end(rest)) == 0) take_character(rest);
    const std::size_t length = text.size() - rest.size();
    lines.push_back(text.substr(0, length + (with_ends ? end : 0)));
    text.remove_prefix(length + (rest.empty() ? 0 : end));
  }
  return lines;
}

}  // namespace gpunode::chat::detail
