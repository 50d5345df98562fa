#include "runtime/chat/detail/value_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "runtime/chat/detail/characters.hpp"

namespace gpunode::chat::detail {
namespace {

void append_hex(std::string& text, char32_t number, int digits) {
  for (int at = digits - 1; at >= 0; --at) text += "0123456789abcdef"[number >> (4 * at) & 0xf];
}

std::string quoted_text(std::string_view text) {
  const bool other = text.find('\'') != text.npos && text.find('"') == text.npos;
  const char quote = other ? '"' : '\'';
  std::string made(1, quote);
  while (!text.empty()) {
    std::string_view rest = text;
    const char32_t c = take_character(rest);
    if (c == '\\' || c == static_cast<unsigned char>(quote)) {
      made += {'\\', static_cast<char>(c)};
    } else if (c == '\n' || c == '\r' || c == '\t') {
      made += {'\\', c == '\n' ? 'n' : c == '\r' ? 'r' : 't'};
    } else if (is_printable(c)) {
      made += text.substr(0, text.size() - rest.size());
    } else {
      made += c < 0x100 ? "\\x" : c < 0x10000 ? "\\u" : "\\U";
      append_hex(made, c, c < 0x100 ? 2 : c < 0x10000 ? 4 : 8);
    }
    text = rest;
  }
  return made += quote;
}

// Takes each part from the budget as it is added, so that what is shared within a value is no trap.
class Writer {
 public:
  explicit Writer(Budget& budget) : budget_(budget) {}
  std::string text;

  void add(std::string_view part) {
    budget_.make(part.size());
    text += part;
  }
  Budget& budget() { return budget_; }

 private:
  Budget& budget_;
};

void quote(const Value& value, Writer& to);

void quote_items(const Values& items, Writer& to) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) to.add(", ");
    quote(items[i], to);
  }
}

void quote_dict(const Dict& dict, Writer& to) {
  to.add("{");
  for (const auto& item : dict.items()) {
    if (&item != &dict.items().front()) to.add(", ");
    quote(item.first, to);
    to.add(": ");
    quote(item.second, to);
  }
  to.add("}");
}

void quote_sequence(const Sequence& list, Writer& to) {
  to.add(list.tuple ? "(" : "[");
  quote_items(list.items, to);
  if (list.tuple)
    to.add(list.items.size() == 1 ? ",)" : ")");
  else
    to.add("]");
}

void quote(const Value& value, Writer& to) {
  const Budget::Deeper deeper(to.budget());
  if (is<Undefined>(value)) return to.add("Undefined");
  if (is<None>(value)) return to.add("None");
  if (const auto* flag = std::get_if<bool>(&value)) return to.add(*flag ? "True" : "False");
  if (const auto number = integer_in(value)) return to.add(std::to_string(*number));
  if (const auto* number = std::get_if<double>(&value)) return to.add(real_text(*number));
  if (const std::string* text = text_in(value)) return to.add(quoted_text(*text));
  if (const auto* list = std::get_if<SequencePointer>(&value)) return quote_sequence(**list, to);
  if (const Dict* dict = dict_in(value)) return quote_dict(*dict, to);
  if (const auto* view = std::get_if<std::shared_ptr<const View>>(&value)) {
    constexpr std::array kNames{"dict_keys([", "dict_values([", "dict_items(["};
    to.add(kNames[static_cast<std::size_t>((*view)->of)]);
    quote_items(all_of(value, to.budget()), to);
    return to.add("])");
  }
  if (const auto* range = std::get_if<std::shared_ptr<const Range>>(&value)) {
    to.add("range(" + std::to_string((*range)->start) + ", " + std::to_string((*range)->stop));
    if ((*range)->step != 1) to.add(", " + std::to_string((*range)->step));
    return to.add(")");
  }
  if (const auto* names = std::get_if<NamespacePointer>(&value)) {
    to.add("<Namespace ");
    quote_dict((*names)->attributes, to);
    return to.add(">");
  }
  not_known("printing a " + std::string(kind_of(value)));
}

class JsonWriter {
 public:
  JsonWriter(const JsonForm& form, Budget& budget) : form_(form), to_(budget) {}

  std::string whole(const Value& value) {
    write(value);
    return std::move(to_.text);
  }

 private:
  void write(const Value& value) {
    const Budget::Deeper deeper(to_.budget());
    if (is<None>(value)) return to_.add("null");
    if (const auto* flag = std::get_if<bool>(&value)) return to_.add(*flag ? "true" : "false");
    if (const auto number = integer_in(value)) return to_.add(std::to_string(*number));
    if (const auto* number = std::get_if<double>(&value)) return real(*number);
    if (const auto* marked = std::get_if<Marked>(&value)) return string(*marked->text);
    if (const std::string* text = text_in(value)) return string(*text);
    if (const auto* list = std::get_if<SequencePointer>(&value)) return array((*list)->items);
    if (const Dict* dict = dict_in(value)) return object(*dict);
    wrong("a " + std::string(kind_of(value)) + " has no form in JSON");
  }

  void real(double number) {
    if (std::isnan(number)) return to_.add("NaN");
    if (std::isinf(number)) return to_.add(number > 0 ? "Infinity" : "-Infinity");
    to_.add(real_text(number));
  }

  void string(std::string_view text) {
    std::string made = "\"";
    while (!text.empty()) {
      std::string_view rest = text;
      const char32_t c = take_character(rest);
      constexpr std::string_view kSpecial = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
      const auto which = c < 0x80 ? kSpecial.find(static_cast<char>(c)) : kSpecial.npos;
      if (which != kSpecial.npos)
        made += {'\\', kLetters[which]};
      else if (c < 0x20 || (form_.ascii && c >= 0x7f))
        escape(made, c);
      else
        made += text.substr(0, text.size() - rest.size());
      text = rest;
    }
    to_.add(made += '"');
  }

  static void escape(std::string& made, char32_t c) {
    if (c >= 0x10000) {
      escape(made, 0xd800 + ((c - 0x10000) >> 10));
      c = 0xdc00 + ((c - 0x10000) & 0x3ff);
    }
    made += "\\u";
    append_hex(made, c, 4);
  }

  // A line of its own for what is next.
  void line() {
    if (!form_.indent) return;
    to_.add("\n");
    for (unsigned i = 0; i < level_; ++i) to_.add(*form_.indent);
  }

  template <class Items, class Write>
  void all(const Items& items, std::string_view brackets, Write write) {
    to_.add(brackets.substr(0, 1));
    ++level_;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) to_.add(form_.item);
      line();
      write(items[i]);
    }
    --level_;
    if (!items.empty()) line();
    to_.add(brackets.substr(1));
  }

  void array(const Values& items) {
    all(items, "[]", [&](const Value& item) { write(item); });
  }

  void object(const Dict& dict) {
    std::vector<Dict::Item> items = dict.items();
    to_.budget().make(items.size() * sizeof(Dict::Item));
    if (form_.sorted)
      std::stable_sort(items.begin(), items.end(), [&](const auto& one, const auto& other) {
        return less(one.first, other.first, to_.budget());
      });
    all(items, "{}", [&](const Dict::Item& item) {
      key(item.first);
      to_.add(form_.key);
      write(item.second);
    });
  }

  void key(const Value& key) {
    if (text_in(key)) return write(key);
    if (!is<None>(key) && !number_in(key))
      wrong("a " + std::string(kind_of(key)) + " is no key in JSON");
    to_.add("\"");
    write(key);
    to_.add("\"");
  }

  const JsonForm& form_;
  Writer to_;
  unsigned level_ = 0;
};

}  // namespace

std::string real_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  std::array<char, 40> letters{};
  const auto end = std::to_chars(letters.data(), letters.data() + letters.size(), std::fabs(number),
                                 std::chars_format::scientific);
  const std::string_view shortest(letters.data(),
                                  static_cast<std::size_t>(end.ptr - letters.data()));
  const std::size_t at = shortest.find('e');
  std::string digits(shortest.substr(0, at));
  std::erase(digits, '.');
  const int power = std::atoi(std::string(shortest.substr(at + 1)).c_str());
  std::string made = std::signbit(number) ? "-" : "";
  if (power < -4 || power >= 16) {
    made += digits.substr(0, 1);
    if (digits.size() > 1) made += "." + digits.substr(1);
    made += power < 0 ? "e-" : "e+";
    const std::string size = std::to_string(std::abs(power));
    return made + (size.size() < 2 ? "0" + size : size);
  }
  if (power < 0)
    return made + "0." + std::string(static_cast<std::size_t>(-power - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(power) + 1;
  if (digits.size() <= whole) return made + digits + std::string(whole - digits.size(), '0') + ".0";
  return made + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string quoted(const Value& value, Budget& budget) {
  Writer to(budget);
  quote(value, to);
  return std::move(to.text);
}

std::string printed(const Value& value, Budget& budget) {
  if (is<Undefined>(value)) return {};
  const auto* marked = std::get_if<Marked>(&value);
  if (const std::string* text = marked ? marked->text.get() : text_in(value)) {
    budget.make(text->size());
    return *text;
  }
  return quoted(value, budget);
}

std::string json_text(const Value& value, const JsonForm& form, Budget& budget) {
  return JsonWriter(form, budget).whole(value);
}

}  // namespace gpunode::chat::detail
