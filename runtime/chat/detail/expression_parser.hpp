// Expressions of a template, with Jinja's order of operators. What is not known here (filters, tests,
// methods) is refused by name. Throws a ThrownError.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "runtime/chat/detail/lexer.hpp"
#include "runtime/chat/detail/syntax.hpp"

namespace gpunode::chat::detail {

class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& here() const { return tokens_[at_]; }
  Token take();
  bool at_sign(std::string_view sign) const;
  bool at_name(std::string_view name) const;
  bool skip_sign(std::string_view sign);
  bool skip_name(std::string_view name);
  void expect(Token::Kind kind);
  void expect_sign(std::string_view sign);
  std::string expect_name();
  [[noreturn]] void unexpected() const;

  ExpressionPointer expression(bool with_choice = true);
  // One, or several between commas; `end`: a name that ends them.
  ExpressionPointer several(bool with_choice = true, std::string_view end = {});

 private:
  using Kind = Expression::Kind;
  using Node = std::unique_ptr<Expression>;
  class Nested;

  Node made(Kind kind, std::string name = {}) const;
  Node made(Kind kind, int line, std::string name = {}) const;
  static void add(Node& node, ExpressionPointer part);

  ExpressionPointer choice();
  ExpressionPointer either();
  ExpressionPointer both();
  ExpressionPointer negation();
  ExpressionPointer comparison();
  ExpressionPointer arithmetic(unsigned level);
  ExpressionPointer signed_value(bool with_filters);
  ExpressionPointer primary();
  ExpressionPointer bracket();
  ExpressionPointer dict();
  ExpressionPointer postfix(ExpressionPointer value);
  ExpressionPointer attribute(ExpressionPointer value);
  ExpressionPointer subscript(ExpressionPointer value);
  ExpressionPointer filters(ExpressionPointer value);
  ExpressionPointer filter(ExpressionPointer value);
  ExpressionPointer test(ExpressionPointer value);
  ExpressionPointer call(ExpressionPointer value);
  std::string dotted_name();
  void arguments(Node& node);
  bool tuple_ends(std::string_view end) const;

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  unsigned depth_ = 0;
};

}  // namespace gpunode::chat::detail
