#include "runtime/chat/detail/expression_parser.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "runtime/chat/detail/filters.hpp"
#include "runtime/chat/detail/methods.hpp"
#include "runtime/chat/detail/tests.hpp"

namespace gpunode::chat::detail {

// Expressions in expressions lie no deeper than that.
class ExpressionParser::Nested {
 public:
  explicit Nested(ExpressionParser& parser) : parser_(parser) {
    if (++parser_.depth_ > kNesting)
      too_much("line " + std::to_string(parser_.here().line) + ": expressions lie too deep");
  }
  ~Nested() { --parser_.depth_; }

 private:
  ExpressionParser& parser_;
};

Token ExpressionParser::take() {
  return here().kind == Token::Kind::end ? here() : tokens_[at_++];
}
bool ExpressionParser::at_sign(std::string_view sign) const {
  return here().kind == Token::Kind::sign && here().text == sign;
}
bool ExpressionParser::at_name(std::string_view name) const {
  return here().kind == Token::Kind::name && here().text == name;
}
bool ExpressionParser::skip_sign(std::string_view sign) {
  return at_sign(sign) && (++at_, true);
}
bool ExpressionParser::skip_name(std::string_view name) {
  return at_name(name) && (++at_, true);
}
void ExpressionParser::expect(Token::Kind kind) {
  if (here().kind != kind) unexpected();
  take();
}
void ExpressionParser::expect_sign(std::string_view sign) {
  if (!skip_sign(sign)) unexpected();
}
std::string ExpressionParser::expect_name() {
  if (here().kind != Token::Kind::name) unexpected();
  return take().text;
}
void ExpressionParser::unexpected() const {
  using enum Token::Kind;
  if (here().kind == end) wrong_at(here().line, "the template ends in the middle");
  const bool tag = here().kind == block_end || here().kind == print_end;
  wrong_at(here().line, tag ? "a tag ends in the middle" : "'" + here().text + "' has no place");
}

ExpressionParser::Node ExpressionParser::made(Kind kind, std::string name) const {
  return made(kind, here().line, std::move(name));
}
ExpressionParser::Node ExpressionParser::made(Kind kind, int line, std::string name) const {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = line;
  node->name = std::move(name);
  return node;
}
void ExpressionParser::add(Node& node, ExpressionPointer part) {
  if (part) node->depth = std::max(node->depth, part->depth + 1);
  if (node->depth > kNesting)
    too_much("line " + std::to_string(node->line) + ": expressions lie too deep");
  node->parts.push_back(std::move(part));
}

ExpressionPointer ExpressionParser::expression(bool with_choice) {
  const Nested nested(*this);
  return with_choice ? choice() : either();
}

bool ExpressionParser::tuple_ends(std::string_view end) const {
  return here().kind == Token::Kind::print_end || here().kind == Token::Kind::block_end ||
         at_sign(")") || (!end.empty() && at_name(end));
}

ExpressionPointer ExpressionParser::several(bool with_choice, std::string_view end) {
  Node tuple = made(Kind::tuple);
  bool is_tuple = false;
  while (!tuple_ends(end)) {
    add(tuple, expression(with_choice));
    if (!skip_sign(",")) break;
    is_tuple = true;
  }
  if (is_tuple) return tuple;
  if (tuple->parts.empty()) unexpected();
  return std::move(tuple->parts.front());
}

ExpressionPointer ExpressionParser::choice() {
  ExpressionPointer value = either();
  while (skip_name("if")) {
    Node node = made(Kind::choice);
    add(node, either());
    add(node, std::move(value));
    if (skip_name("else")) {
      const Nested nested(*this);
      add(node, choice());
    } else {
      add(node, nullptr);
    }
    value = std::move(node);
  }
  return value;
}

ExpressionPointer ExpressionParser::either() {
  ExpressionPointer left = both();
  while (at_name("or")) {
    Node node = made(Kind::either);
    take();
    add(node, std::move(left));
    add(node, both());
    left = std::move(node);
  }
  return left;
}

ExpressionPointer ExpressionParser::both() {
  ExpressionPointer left = negation();
  while (at_name("and")) {
    Node node = made(Kind::both);
    take();
    add(node, std::move(left));
    add(node, negation());
    left = std::move(node);
  }
  return left;
}

ExpressionPointer ExpressionParser::negation() {
  if (!at_name("not")) return comparison();
  const Nested nested(*this);
  Node node = made(Kind::negation);
  take();
  add(node, negation());
  return node;
}

ExpressionPointer ExpressionParser::comparison() {
  Node node = made(Kind::comparison);
  add(node, arithmetic(0));
  constexpr std::array kSigns{"==", "!=", "<", "<=", ">", ">="};
  for (;;) {
    if (here().kind == Token::Kind::sign &&
        std::find(kSigns.begin(), kSigns.end(), here().text) != kSigns.end()) {
      node->signs.push_back(take().text);
    } else if (skip_name("in")) {
      node->signs.emplace_back("in");
    } else if (at_name("not") && tokens_[at_ + 1].kind == Token::Kind::name &&
               tokens_[at_ + 1].text == "in") {
      at_ += 2;
      node->signs.emplace_back("not in");
    } else {
      break;
    }
    add(node, arithmetic(0));
  }
  if (node->signs.empty()) return std::move(node->parts.front());
  return node;
}

// From the loosest to the tightest: sums, joined texts, products, powers.
ExpressionPointer ExpressionParser::arithmetic(unsigned level) {
  static const std::array<std::vector<std::string_view>, 4> kLevels{
      {{"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}}};
  if (level == kLevels.size()) return signed_value(true);
  ExpressionPointer left = arithmetic(level + 1);
  const auto& signs = kLevels[level];
  while (here().kind == Token::Kind::sign &&
         std::find(signs.begin(), signs.end(), here().text) != signs.end()) {
    Node node = made(level == 1 ? Kind::joined : Kind::arithmetic, here().text);
    take();
    add(node, std::move(left));
    add(node, arithmetic(level + 1));
    left = std::move(node);
  }
  return left;
}

ExpressionPointer ExpressionParser::signed_value(bool with_filters) {
  ExpressionPointer value;
  if (at_sign("-") || at_sign("+")) {
    const Nested nested(*this);
    Node node = made(Kind::sign, here().text);
    take();
    add(node, signed_value(false));
    value = std::move(node);
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return with_filters ? filters(std::move(value)) : std::move(value);
}

ExpressionPointer ExpressionParser::primary() {
  Node node = made(Kind::constant);
  const Token token = here();
  switch (token.kind) {
    case Token::Kind::name:
      take();
      if (token.text == "true" || token.text == "True") {
        node->constant = true;
      } else if (token.text == "false" || token.text == "False") {
        node->constant = false;
      } else if (token.text == "none" || token.text == "None") {
        node->constant = None{};
      } else {
        node->kind = Kind::name;
        node->name = token.text;
      }
      return node;
    case Token::Kind::text: {
      std::string text;
      while (here().kind == Token::Kind::text) text += take().text;
      node->constant = std::make_shared<const std::string>(std::move(text));
      return node;
    }
    case Token::Kind::integer: {
      take();
      std::int64_t number = 0;
      if (std::from_chars(token.text.data(), token.text.data() + token.text.size(), number).ec !=
          std::errc())
        not_known_at(token.line, "a number as large as " + token.text);
      node->constant = number;
      return node;
    }
    case Token::Kind::real: {
      take();
      double number = 0;
      if (std::from_chars(token.text.data(), token.text.data() + token.text.size(), number).ec !=
          std::errc())
        not_known_at(token.line, "a number as " + token.text);
      node->constant = number;
      return node;
    }
    default:
      return bracket();
  }
}

ExpressionPointer ExpressionParser::bracket() {
  const Nested nested(*this);
  if (at_sign("{")) return dict();
  if (skip_sign("(")) {
    Node empty = made(Kind::tuple);
    if (skip_sign(")")) return empty;
    ExpressionPointer value = several();
    expect_sign(")");
    return value;
  }
  Node list = made(Kind::list);
  expect_sign("[");
  while (!at_sign("]")) {
    if (!list->parts.empty()) {
      expect_sign(",");
      if (at_sign("]")) break;
    }
    add(list, expression());
  }
  expect_sign("]");
  return list;
}

ExpressionPointer ExpressionParser::dict() {
  Node dict = made(Kind::dict);
  expect_sign("{");
  while (!at_sign("}")) {
    if (!dict->parts.empty()) {
      expect_sign(",");
      if (at_sign("}")) break;
    }
    add(dict, expression());
    expect_sign(":");
    add(dict, expression());
  }
  expect_sign("}");
  return dict;
}

ExpressionPointer ExpressionParser::postfix(ExpressionPointer value) {
  for (;;) {
    if (at_sign("."))
      value = attribute(std::move(value));
    else if (at_sign("["))
      value = subscript(std::move(value));
    else if (at_sign("("))
      value = call(std::move(value));
    else
      return value;
  }
}

ExpressionPointer ExpressionParser::attribute(ExpressionPointer value) {
  expect_sign(".");
  if (here().kind == Token::Kind::integer) {
    Node node = made(Kind::subscript);
    add(node, std::move(value));
    add(node, primary());
    return node;
  }
  Node node = made(Kind::attribute, here().text);
  expect(Token::Kind::name);
  if (node->name.starts_with("__")) not_known_at(node->line, "the attribute '" + node->name + "'");
  add(node, std::move(value));
  return node;
}

ExpressionPointer ExpressionParser::subscript(ExpressionPointer value) {
  Node node = made(Kind::subscript);
  expect_sign("[");
  add(node, std::move(value));
  if (at_sign("]")) {  // x[] is x[()]
    add(node, made(Kind::tuple));
    take();
    return node;
  }
  if (!at_sign(":")) add(node, expression());
  if (at_sign(":")) {
    node->kind = Kind::slice;
    if (node->parts.size() == 1) add(node, nullptr);
    while (node->parts.size() < 4 && skip_sign(":"))
      add(node, at_sign(":") || at_sign("]") || at_sign(",") ? nullptr : expression());
    while (node->parts.size() < 4) add(node, nullptr);
  }
  if (at_sign(",")) not_known_at(here().line, "a subscript of several parts");
  expect_sign("]");
  return node;
}

ExpressionPointer ExpressionParser::filters(ExpressionPointer value) {
  for (;;) {
    if (skip_sign("|"))
      value = filter(std::move(value));
    else if (skip_name("is"))
      value = test(std::move(value));
    else if (at_sign("("))
      value = call(std::move(value));
    else
      return value;
  }
}

// Names of filters and tests may have several parts; none that is known has.
std::string ExpressionParser::dotted_name() {
  std::string name = expect_name();
  while (skip_sign(".")) name += "." + expect_name();
  return name;
}

ExpressionPointer ExpressionParser::filter(ExpressionPointer value) {
  Node node = made(Kind::filter);
  node->name = dotted_name();
  if (!find_filter(node->name)) not_known_at(node->line, "the filter '" + node->name + "'");
  add(node, std::move(value));
  if (at_sign("(")) arguments(node);
  return node;
}

ExpressionPointer ExpressionParser::test(ExpressionPointer value) {
  const int line = here().line;
  const bool negated = skip_name("not");
  Node node = made(Kind::test, line);
  node->name = dotted_name();
  if (!find_test(node->name)) not_known_at(line, "the test '" + node->name + "'");
  add(node, std::move(value));
  using enum Token::Kind;
  const Token::Kind kind = here().kind;
  if (at_sign("(")) {
    arguments(node);
  } else if ((kind == name && !at_name("else") && !at_name("or") && !at_name("and")) ||
             kind == text || kind == integer || kind == real || at_sign("[") || at_sign("{")) {
    if (at_name("is")) wrong_at(here().line, "a test of a test");
    add(node, postfix(primary()));
  }
  if (!negated) return node;
  Node negation = made(Kind::negation, line);
  add(negation, std::move(node));
  return negation;
}

ExpressionPointer ExpressionParser::call(ExpressionPointer value) {
  if (value->kind == Kind::attribute && known_method_elsewhere(value->name))
    not_known_at(value->line, "the method '" + value->name + "'");
  Node node = made(Kind::call);
  add(node, std::move(value));
  arguments(node);
  return node;
}

void ExpressionParser::arguments(Node& node) {
  const Nested nested(*this);
  expect_sign("(");
  for (bool first = true; !at_sign(")"); first = false) {
    if (!first) {
      expect_sign(",");
      if (at_sign(")")) break;
    }
    if (at_sign("*") || at_sign("**"))
      not_known_at(here().line, "a call with '" + here().text + "'");
    if (here().kind == Token::Kind::name && tokens_[at_ + 1].kind == Token::Kind::sign &&
        tokens_[at_ + 1].text == "=") {
      std::string name = take().text;
      take();
      for (const auto& [other, value] : node->named)
        if (other == name) wrong_at(here().line, "the argument '" + name + "' is given twice");
      ExpressionPointer value = expression();
      node->depth = std::max(node->depth, value->depth + 1);
      node->named.emplace_back(std::move(name), std::move(value));
    } else {
      if (!node->named.empty()) wrong_at(here().line, "an argument stands behind named ones");
      add(node, expression());
    }
  }
  expect_sign(")");
}

}  // namespace gpunode::chat::detail
