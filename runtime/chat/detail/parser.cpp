#include "runtime/chat/detail/parser.hpp"

#include <algorithm>
#include <array>

#include "runtime/chat/detail/expression_parser.hpp"
#include "runtime/chat/detail/scopes.hpp"

namespace gpunode::chat::detail {
namespace {

constexpr unsigned kBlocks = 60;  // in one another

bool reads_any(const Statements& body, const std::vector<std::string_view>& names);

bool reads_any(const Expression* value, const std::vector<std::string_view>& names) {
  if (!value) return false;
  if (value->kind == Expression::Kind::name)
    return std::find(names.begin(), names.end(), value->name) != names.end();
  const auto reads = [&](const auto& part) { return reads_any(part.get(), names); };
  return std::any_of(value->parts.begin(), value->parts.end(), reads) ||
         std::any_of(value->named.begin(), value->named.end(),
                     [&](const auto& one) { return reads(one.second); });
}

bool reads_any(const Statements& body, const std::vector<std::string_view>& names) {
  return std::any_of(body.begin(), body.end(), [&](const auto& one) {
    return reads_any(one->value.get(), names) || reads_any(one->filter.get(), names) ||
           reads_any(one->body, names) || reads_any(one->otherwise, names) ||
           std::any_of(one->branches.begin(), one->branches.end(), [&](const auto& branch) {
             return reads_any(branch.first.get(), names) || reads_any(branch.second, names);
           });
  });
}

class Parser {
 public:
  explicit Parser(std::string_view source) : in_(tokens_of(source)) {}

  Statements all() {
    Statements body = until({});
    if (in_.here().kind != Token::Kind::end) in_.unexpected();
    return body;
  }

 private:
  using Kind = Statement::Kind;
  using Node = std::unique_ptr<Statement>;
  using Ends = std::vector<std::string_view>;

  // Statements up to a tag of one of these names, which is not taken but for its beginning.
  Statements until(const Ends& ends) {
    if (++depth_ > kBlocks) too_much("blocks lie too deep in one another");
    Statements body;
    using enum Token::Kind;
    while (in_.here().kind != end) {
      const Token token = in_.take();
      if (token.kind == data) {
        Node node = made(Kind::data, token.line);
        node->text = token.text;
        body.push_back(std::move(node));
      } else if (token.kind == print_begin) {
        Node node = made(Kind::print, token.line);
        node->value = in_.several();
        in_.expect(print_end);
        body.push_back(std::move(node));
      } else {
        if (std::any_of(ends.begin(), ends.end(), [&](auto name) { return in_.at_name(name); }))
          break;
        statement(body);
        in_.expect(block_end);
      }
    }
    --depth_;
    return body;
  }

  // The body of a tag, from its end on.
  Statements body_until(const Ends& ends) {
    in_.skip_sign(":");
    in_.expect(Token::Kind::block_end);
    Statements body = until(ends);
    if (in_.here().kind == Token::Kind::end)
      wrong_at(in_.here().line, "the template ends before {% " + std::string(ends.back()) + " %}");
    return body;
  }

  Node made(Kind kind, int line) const {
    auto node = std::make_unique<Statement>();
    node->kind = kind;
    node->line = line;
    return node;
  }

  void statement(Statements& into) {
    const int line = in_.here().line;
    const std::string name = in_.expect_name();
    if (name == "if") return into.push_back(condition(line));
    if (name == "for") return into.push_back(loop(line));
    if (name == "set") return into.push_back(set(line));
    if (name == "macro") return into.push_back(macro(line));
    if (name == "break" || name == "continue") {
      if (loops_ == 0) wrong_at(line, "{% " + name + " %} stands in no loop");
      return into.push_back(made(name == "break" ? Kind::leave : Kind::skip, line));
    }
    if (name == "generation") {  // marks what a model is trained on: nothing else
      Node node = made(Kind::block, line);
      node->body = body_outside_loops({"endgeneration"});
      in_.take();
      return into.push_back(std::move(node));
    }
    if (name == "elif" || name == "else" || name.starts_with("end"))
      wrong_at(line, "{% " + name + " %} has no place");
    not_known_at(line, "the tag {% " + name + " %}");
  }

  Node condition(int line) {
    Node node = made(Kind::condition, line);
    for (bool more = true; more;) {
      auto when = in_.several(false);
      node->branches.emplace_back(std::move(when), body_until({"elif", "else", "endif"}));
      more = in_.skip_name("elif");
    }
    if (in_.skip_name("else")) node->branches.emplace_back(nullptr, body_until({"endif"}));
    in_.take();
    return node;
  }

  Node loop(int line) {
    Node node = made(Kind::loop, line);
    node->target = target(false, "in");
    if (!in_.skip_name("in")) in_.unexpected();
    node->value = in_.several(false, "recursive");
    if (in_.skip_name("if")) node->filter = in_.expression();
    if (reads_any(node->filter.get(), {"loop"})) not_known_at(line, "`loop` in the `if` of a loop");
    if (in_.at_name("recursive")) not_known_at(line, "a recursive loop");
    ++loops_;
    node->body = body_until({"else", "endfor"});
    --loops_;
    if (in_.take().text == "else") {
      node->otherwise = body_until({"endfor"});
      in_.take();
    }
    return node;
  }

  Node set(int line) {
    Node node = made(Kind::set, line);
    node->target = target(true, {});
    if (in_.skip_sign("=")) {
      node->value = in_.several();
      return node;
    }
    if (in_.at_sign("|")) not_known_at(line, "a filter of {% set %}");
    node->kind = Kind::set_block;
    node->body = body_outside_loops({"endset"});
    in_.take();
    return node;
  }

  Node macro(int line) {
    Node node = made(Kind::macro, line);
    node->text = in_.expect_name();
    refuse_constant(node->text);
    in_.expect_sign("(");
    while (!in_.at_sign(")")) {
      if (!node->parameters.empty()) in_.expect_sign(",");
      std::string name = in_.expect_name();
      refuse_constant(name);
      for (const auto& [other, value] : node->parameters)
        if (other == name) wrong_at(line, "the parameter '" + name + "' stands there twice");
      ExpressionPointer value;
      if (in_.skip_sign("="))
        value = in_.expression();
      else if (!node->parameters.empty() && node->parameters.back().second)
        wrong_at(line, "a parameter without a default stands behind one with");
      node->parameters.emplace_back(std::move(name), std::move(value));
    }
    in_.expect_sign(")");
    node->body = body_outside_loops({"endmacro"});
    if (reads_any(node->body, {"varargs", "kwargs", "caller"}))
      not_known_at(line, "'varargs', 'kwargs' or 'caller' in a macro");
    in_.take();
    return node;
  }

  // What is kept as text has no way out to the loop around it.
  Statements body_outside_loops(const Ends& ends) {
    const unsigned loops = std::exchange(loops_, 0);
    Statements body = body_until(ends);
    loops_ = loops;
    return body;
  }

  void refuse_constant(const std::string& name) const {
    constexpr std::array kConstants{"true", "false", "none", "True", "False", "None"};
    if (std::find(kConstants.begin(), kConstants.end(), name) != kConstants.end())
      wrong_at(in_.here().line, "'" + name + "' cannot be set");
    if (name == "loop" && loops_ > 0) wrong_at(in_.here().line, "'loop' cannot be set in a loop");
  }

  Target target(bool with_attributes, std::string_view end) {
    Target whole;
    do {
      if (!whole.parts.empty() && (in_.at_sign("=") || in_.at_name(end))) break;
      if (in_.at_sign("(") || in_.at_sign("[")) not_known_at(in_.here().line, "such a target");
      Target one;
      one.name = in_.expect_name();
      refuse_constant(one.name);
      if (end == "in" && one.name == "loop")
        wrong_at(in_.here().line, "'loop' cannot be set in a loop");
      if (with_attributes && in_.skip_sign(".")) one.attribute = in_.expect_name();
      whole.parts.push_back(std::move(one));
      whole.several = in_.at_sign(",");
    } while (in_.skip_sign(","));
    whole.several = whole.several || whole.parts.size() > 1;
    if (whole.several) return whole;
    Target only = std::move(whole.parts.front());
    return only;
  }

  ExpressionParser in_;
  unsigned depth_ = 0, loops_ = 0;
};

}  // namespace

Syntax parse_template(std::string_view source) {
  Syntax made{Parser(source).all(), {}};
  made.hidden = note_hidden_names(made.statements);
  return made;
}

}  // namespace gpunode::chat::detail
