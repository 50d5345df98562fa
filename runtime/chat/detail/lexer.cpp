#include "runtime/chat/detail/lexer.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "runtime/chat/detail/characters.hpp"

namespace gpunode::chat::detail {
namespace {

using Kind = Token::Kind;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// Line ends are '\n', and one at the end of all is gone.
std::string with_plain_lines(std::string_view source) {
  std::string plain;
  for (std::size_t at = 0; at < source.size(); ++at) {
    if (source[at] != '\r')
      plain += source[at];
    else if (at + 1 == source.size() || source[at + 1] != '\n')
      plain += '\n';
  }
  if (plain.ends_with('\n')) plain.pop_back();
  return plain;
}

std::string unescaped(std::string_view text, int line) {
  std::string made;
  const auto number = [&](std::size_t& at, std::size_t digits) {
    std::size_t last = at;
    while (last < text.size() && last - at < digits && is_hex(text[last])) ++last;
    if (last - at != digits) wrong_at(line, "an escape in a text is cut short");
    const auto value = std::stoul(std::string(text.substr(at, digits)), nullptr, 16);
    at = last;
    if (value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
      not_known_at(line, "an escape in a text that is no character");
    append_character(made, static_cast<char32_t>(value));
  };
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '\\') {
      made += text[at++];
      continue;
    }
    const char c = text[at + 1];
    at += 2;
    constexpr std::string_view kLetters = "abfnrtv\\'\"", kMeant = "\a\b\f\n\r\t\v\\'\"";
    if (const auto which = kLetters.find(c); which != std::string_view::npos) {
      made += kMeant[which];
    } else if (c >= '0' && c <= '7') {
      unsigned value = 0;
      for (--at; at < text.size() && text[at] >= '0' && text[at] <= '7' && value < 0100; ++at)
        value = value * 8 + static_cast<unsigned>(text[at] - '0');
      if (value > 0377) not_known_at(line, "an escape in a text that is no character");
      append_character(made, value);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      number(at, c == 'x' ? 2 : c == 'u' ? 4 : 8);
    } else if (c == 'N' || static_cast<unsigned char>(c) >= 0x80) {
      not_known_at(line, std::string("the escape \\") + (c == 'N' ? "N" : "before such a letter"));
    } else if (c != '\n') {
      made += {'\\', c};
    }
  }
  return made;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : owned_(with_plain_lines(source)), source_(owned_) {}

  std::vector<Token> all() {
    while (at_ < source_.size()) data();
    add(Kind::end, {});
    return std::move(tokens_);
  }

 private:
  bool here(std::string_view text) const { return source_.substr(at_).starts_with(text); }

  void add(Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  // Takes what is from here to there.
  std::string_view take(std::size_t bytes) {
    const std::string_view taken = source_.substr(at_, bytes);
    line_ += static_cast<int>(std::count(taken.begin(), taken.end(), '\n'));
    at_ += bytes;
    if (!taken.empty()) line_starts_ = taken.back() == '\n';
    return taken;
  }

  void take_space() {
    std::string_view rest = source_.substr(at_);
    take(rest.size() - stripped(rest, {.left = true, .right = false}).size());
  }

  // What is printed as it stands, and the tag behind it.
  void data() {
    std::size_t tag = at_;
    for (;; ++tag) {
      tag = source_.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 >= source_.size()) {
        add(Kind::data, std::string(source_.substr(at_)));
        take(source_.size() - at_);
        return;
      }
      if (source_[tag + 1] == '{' || source_[tag + 1] == '%' || source_[tag + 1] == '#') break;
    }
    const char kind = source_[tag + 1], sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    const bool at_line_start = line_starts_;
    std::string_view text = source_.substr(at_, tag - at_);
    if (sign == '-') {
      text = stripped(text, {.left = false, .right = true});
    } else if (sign != '+' && kind != '{') {
      const std::size_t line = text.rfind('\n') + 1;  // 0 where there is none
      if ((line > 0 || at_line_start) && stripped(text.substr(line)).empty())
        text = text.substr(0, line);
    }
    if (!text.empty()) add(Kind::data, std::string(text));
    take(tag - at_);
    take(sign == '-' || sign == '+' ? 3 : 2);
    if (kind == '#')
      comment();
    else
      tag_of(kind == '%' ? Kind::block_begin : Kind::print_begin);
  }

  void comment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) wrong_at(line_, "a comment has no end");
    const char sign = end > at_ ? source_[end - 1] : ' ';
    take(end + 2 - at_);
    after_tag(sign, true);
  }

  // Behind the end of a tag: all space, a line's end, or nothing is gone.
  void after_tag(char sign, bool trims) {
    if (sign == '-')
      take_space();
    else if (sign != '+' && trims && here("\n"))
      take(1);
  }

  bool ends(std::string_view end, bool plus) {
    for (const char sign : {'-', '+', ' '}) {
      if (sign == '+' && !plus) continue;
      const std::string whole = (sign == ' ' ? "" : std::string(1, sign)) + std::string(end);
      if (!here(whole)) continue;
      add(plus ? Kind::block_end : Kind::print_end, {});
      take(whole.size());
      after_tag(sign, plus);
      return true;
    }
    return false;
  }

  void tag_of(Kind kind) {
    const bool block = kind == Kind::block_begin;
    add(kind, {});
    for (std::string open;;) {
      if (open.empty() && ends(block ? "%}" : "}}", block)) return;
      if (at_ >= source_.size()) wrong_at(line_, "a tag has no end");
      word(open);
    }
  }

  void word(std::string& open) {
    const std::size_t before = at_;
    take_space();
    if (at_ != before) return;
    const char c = source_[at_];
    if (is_digit(c)) return number();
    if (is_word(c)) {
      std::size_t end = at_;
      while (end < source_.size() && is_word(source_[end])) ++end;
      add(Kind::name, std::string(source_.substr(at_, end - at_)));
      take(end - at_);
    } else if (c == '\'' || c == '"') {
      text(c);
    } else if (static_cast<unsigned char>(c) >= 0x80) {
      not_known_at(line_, "a name with letters as these");
    } else {
      sign(open);
    }
  }

  void text(char quote) {
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) wrong_at(line_, "a text has no end");
    add(Kind::text, unescaped(source_.substr(at_ + 1, end - at_ - 1), line_));
    take(end + 1 - at_);
  }

  // Digits, with single underscores between them.
  std::size_t digits(std::size_t from, bool (*is)(char) = is_digit) const {
    std::size_t end = from;
    while (end < source_.size() &&
           (is(source_[end]) || (end > from && source_[end] == '_' && end + 1 < source_.size() &&
                                 is(source_[end + 1]))))
      ++end;
    return end;
  }

  void number() {
    if (here("0x") || here("0X") || here("0b") || here("0B") || here("0o") || here("0O"))
      not_known_at(line_, "a number to another base");
    std::size_t end = digits(at_);
    bool real = false;
    if (at_ == 0 || source_[at_ - 1] != '.') {
      if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
        end = digits(end + 1);
        real = true;
      }
      if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
        std::size_t power = end + 1;
        if (power < source_.size() && (source_[power] == '+' || source_[power] == '-')) ++power;
        if (power < source_.size() && is_digit(source_[power])) {
          end = digits(power);
          real = true;
        }
      }
    }
    std::string letters(source_.substr(at_, end - at_));
    std::erase(letters, '_');
    if (!real && letters.size() > 1 && letters[0] == '0') wrong_at(line_, "a number begins with 0");
    add(real ? Kind::real : Kind::integer, std::move(letters));
    take(end - at_);
  }

  void sign(std::string& open) {
    constexpr std::array kLong{"//", "**", "==", "!=", ">=", "<="};
    constexpr std::string_view kShort = "+-/*%~[](){}><=.:|,;";
    std::string text(1, source_[at_]);
    if (const auto found =
            std::find_if(kLong.begin(), kLong.end(), [&](const char* sign) { return here(sign); });
        found != kLong.end())
      text = *found;
    else if (kShort.find(text[0]) == std::string_view::npos)
      wrong_at(line_, "the letter '" + text + "' has no meaning in a tag");
    constexpr std::string_view kOpen = "([{", kClose = ")]}";
    if (kOpen.find(text) != std::string_view::npos) {
      open += text;
    } else if (const auto which = kClose.find(text); which != std::string_view::npos) {
      if (open.empty() || open.back() != kOpen[which])
        wrong_at(line_, "'" + text + "' closes no bracket");
      open.pop_back();
    }
    add(Kind::sign, text);
    take(text.size());
  }

  const std::string owned_;
  const std::string_view source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view source) {
  return Lexer(source).all();
}

void wrong_at(int line, const std::string& detail) {
  wrong("line " + std::to_string(line) + ": " + detail);
}

void not_known_at(int line, const std::string& detail) {
  not_known("line " + std::to_string(line) + ": " + detail);
}

}  // namespace gpunode::chat::detail
