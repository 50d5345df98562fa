#include "runtime/grammar/detail/json_rules.hpp"

#include <algorithm>
#include <map>

namespace gpunode::grammar::detail {
namespace {

constexpr int kMostSpaces = 64, kMostDigits = 18, kMostExponentDigits = 2;

// How the bytes of a character go on behind its first ones: so many more, the next of them in a range.
// Source: RFC 3629.
struct Lead {
  std::uint8_t first, last;            // the first byte
  std::uint8_t next_first, next_last;  // the second
  int more;                            // bytes behind the first
};
constexpr Lead kLeads[] = {{0xc2, 0xdf, 0x80, 0xbf, 1}, {0xe0, 0xe0, 0xa0, 0xbf, 2},
                           {0xe1, 0xec, 0x80, 0xbf, 2}, {0xed, 0xed, 0x80, 0x9f, 2},
                           {0xee, 0xef, 0x80, 0xbf, 2}, {0xf0, 0xf0, 0x90, 0xbf, 3},
                           {0xf1, 0xf3, 0x80, 0xbf, 3}, {0xf4, 0xf4, 0x80, 0x8f, 3}};
// Of one byte: all but controls, the quote and the backslash.
constexpr std::pair<std::uint8_t, std::uint8_t> kPlain[] = {
    {0x20, 0x21}, {0x23, 0x5b}, {0x5d, 0x7f}};

// States behind the first byte of a longer character, a lead each: {state, its lead}; all end at `to`.
std::array<StateId, std::size(kLeads)> tails_of(AutomatonBuilder& builder, StateId to) {
  std::array<StateId, std::size(kLeads)> made{};
  const StateId one = builder.add_state(), two = builder.add_state();  // more to come
  builder.on_bytes(one, 0x80, 0xbf, to);
  builder.on_bytes(two, 0x80, 0xbf, one);
  for (std::size_t at = 0; at < made.size(); ++at) {
    const Lead& lead = kLeads[at];
    if (lead.more == 1) {
      made[at] = one;
      continue;
    }
    made[at] = builder.add_state();
    builder.on_bytes(made[at], lead.next_first, lead.next_last, lead.more == 2 ? one : two);
  }
  return made;
}

StateId on_hex(AutomatonBuilder& builder, StateId from, std::string_view digits, StateId to) {
  for (const char digit : digits) {
    builder.on_any_of(from, std::string{digit, static_cast<char>(digit - 'a' + 'A')}, to);
  }
  return to;
}

void on_any_hex(AutomatonBuilder& builder, StateId from, StateId to) {
  builder.on_bytes(from, '0', '9', to);
  on_hex(builder, from, "abcdef", to);
}

// Behind "\u": a character, or two halves of one.
void on_unicode_escape(AutomatonBuilder& builder, StateId from, StateId to) {
  const StateId three = builder.add_state(), two = builder.add_state(), one = builder.add_state();
  builder.on_bytes(from, '0', '9', three);
  on_hex(builder, from, "abcef", three);
  on_any_hex(builder, three, two);
  on_any_hex(builder, two, one);
  on_any_hex(builder, one, to);
  const StateId half = builder.add_state();
  on_hex(builder, from, "d", half);
  builder.on_bytes(half, '0', '7', two);
  const StateId upper_two = builder.add_state(), upper_one = builder.add_state(),
                upper = builder.add_state();
  builder.on_bytes(half, '8', '9', upper_two);
  on_hex(builder, half, "ab", upper_two);
  on_any_hex(builder, upper_two, upper_one);
  on_any_hex(builder, upper_one, upper);
  const StateId lower = builder.on_text(upper, "\\u"), second = builder.add_state();
  on_hex(builder, lower, "d", second);
  on_hex(builder, second, "cdef", two);
}

StateId digits(AutomatonBuilder& builder, StateId from, int most, StateId behind) {
  for (int count = 0; count < most; ++count) {
    const StateId next = builder.add_state();
    builder.on_bytes(from, '0', '9', next);
    builder.silently(next, behind);
    from = next;
  }
  return behind;
}

// A minus and digits, of which the first is no 0 unless it is alone.
StateId on_integer(AutomatonBuilder& builder, StateId from) {
  const StateId unsigned_part = builder.add_state(), behind = builder.add_state(),
                first = builder.add_state();
  builder.on_any_of(from, "-", unsigned_part);
  builder.silently(from, unsigned_part);
  builder.on_any_of(unsigned_part, "0", behind);
  builder.on_bytes(unsigned_part, '1', '9', first);
  builder.silently(first, behind);
  return digits(builder, first, kMostDigits - 1, behind);
}

void add_number(AutomatonBuilder& builder, StateId from) {
  const StateId integer = on_integer(builder, from);
  const StateId fraction = builder.add_state(), exponent = builder.add_state(),
                end = builder.add_state(), sign = builder.add_state();
  builder.silently(integer, exponent);
  digits(builder, builder.on_text(integer, "."), kMostDigits, fraction);
  builder.silently(fraction, exponent);
  builder.silently(exponent, end);
  builder.on_any_of(exponent, "eE", sign);
  const StateId power = builder.add_state();
  builder.on_any_of(sign, "+-", power);
  builder.silently(sign, power);
  digits(builder, power, kMostExponentDigits, end);
  builder.ends(end);
}

void add_space(AutomatonBuilder& builder, StateId at) {
  builder.ends(at);
  for (int count = 0; count < kMostSpaces; ++count) {
    const StateId next = builder.add_state();
    builder.on_any_of(at, " \t\n\r", next);
    builder.ends(next);
    at = next;
  }
}

}  // namespace

void on_character(AutomatonBuilder& builder, StateId from, StateId to,
                  std::optional<RuleId> escaped) {
  for (const auto& [first, last] : kPlain) builder.on_bytes(from, first, last, to);
  const auto tails = tails_of(builder, to);
  for (std::size_t at = 0; at < tails.size(); ++at)
    builder.on_bytes(from, kLeads[at].first, kLeads[at].last, tails[at]);
  if (!escaped) return;
  const StateId escape = builder.on_text(from, "\\");
  builder.on_any_of(escape, "\"\\/bfnrt", to);
  builder.on_rule(builder.on_text(escape, "u"), *escaped, to);
}

StateId on_other_name(AutomatonBuilder& builder, StateId from, std::span<const std::string> names) {
  // What follows a beginning that no name has.
  const StateId other = builder.add_state(), behind = builder.add_state();
  on_character(builder, other, other);
  builder.silently(other, behind);
  const auto tails = tails_of(builder, other);
  struct Beginning {
    StateId state = 0;
    bool is_name = false, goes_on_beyond_ascii = false;
  };
  std::map<std::string, Beginning> beginnings{{"", {from}}};
  for (const std::string& name : names) {
    if (std::ranges::any_of(name, [](char one) {
          return one == '"' || one == '\\' || static_cast<unsigned char>(one) < 0x20;
        }))
      continue;  // it has escapes
    std::size_t length = 0;
    const auto is_ascii = [&] { return static_cast<unsigned char>(name[length]) < 0x80; };
    for (; length < name.size() && is_ascii(); ++length)
      beginnings.try_emplace(name.substr(0, length));
    Beginning& last = beginnings[name.substr(0, length)];
    (length == name.size() ? last.is_name : last.goes_on_beyond_ascii) = true;
  }
  for (auto& [text, one] : beginnings)
    if (!text.empty()) one.state = builder.add_state();
  for (const auto& [text, one] : beginnings) {
    if (!one.is_name) builder.silently(one.state, behind);
    for (const auto& [first, last] : kPlain)
      for (unsigned byte = first; byte <= last; ++byte) {
        const auto longer = beginnings.find(text + static_cast<char>(byte));
        const auto read = static_cast<std::uint8_t>(byte);
        builder.on_bytes(one.state, read, read,
                         longer == beginnings.end() ? other : longer->second.state);
      }
    if (one.goes_on_beyond_ascii) continue;
    for (std::size_t lead = 0; lead < tails.size(); ++lead)
      builder.on_bytes(one.state, kLeads[lead].first, kLeads[lead].last, tails[lead]);
  }
  return behind;
}

JsonRules add_json_rules(AutomatonBuilder& builder) {
  JsonRules rules;
  rules.space = builder.add_rule("a space");
  add_space(builder, builder.start_of(rules.space));
  rules.escaped = builder.add_rule("an escape");
  const StateId behind_escape = builder.add_state();
  on_unicode_escape(builder, builder.start_of(rules.escaped), behind_escape);
  builder.ends(behind_escape);
  rules.text = builder.add_rule("a text");
  const StateId inside = builder.on_text(builder.start_of(rules.text), "\"");
  on_character(builder, inside, inside, rules.escaped);
  const StateId behind_text = builder.on_text(inside, "\"");
  builder.ends(behind_text);
  rules.in_text = inside;
  rules.in_endless_text = builder.add_state();
  on_character(builder, rules.in_endless_text, rules.in_endless_text, rules.escaped);
  // A step that no byte takes: what has no end at all is never entered.
  builder.on_bytes(rules.in_endless_text, 1, 0, behind_text);
  rules.whole = builder.add_rule("a whole number");
  builder.ends(on_integer(builder, builder.start_of(rules.whole)));
  rules.number = builder.add_rule("a number");
  add_number(builder, builder.start_of(rules.number));
  rules.object = builder.add_rule("an object");
  rules.list = builder.add_rule("a list");
  rules.value = builder.add_rule("a value");
  // { "name" : value , ... } and [ value , ... ], with spaces between any two.
  const auto on = [&](StateId from, RuleId rule) {
    return builder.on_rule(builder.on_rule(from, rule), rules.space);
  };
  const auto spaced = [&](StateId from, std::string_view text) {
    return builder.on_rule(builder.on_text(from, text), rules.space);
  };
  for (const bool is_object : {true, false}) {
    const StateId begin =
        spaced(builder.start_of(is_object ? rules.object : rules.list), is_object ? "{" : "[");
    const StateId entry = builder.add_state();
    builder.silently(begin, entry);
    const StateId value = is_object ? spaced(on(entry, rules.text), ":") : entry;
    const StateId behind = on(value, rules.value);
    builder.silently(spaced(behind, ","), entry);
    const StateId end = builder.add_state();
    builder.on_any_of(begin, is_object ? "}" : "]", end);
    builder.on_any_of(behind, is_object ? "}" : "]", end);
    builder.ends(end);
  }
  const StateId value = builder.start_of(rules.value), end = builder.add_state();
  builder.ends(end);
  for (const RuleId rule : {rules.text, rules.number, rules.object, rules.list})
    builder.on_rule(value, rule, end);
  for (const char* word : {"true", "false", "null"})
    builder.silently(builder.on_text(value, word), end);
  builder.share_what_is_there();
  return rules;
}

}  // namespace gpunode::grammar::detail
