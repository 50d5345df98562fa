#include "runtime/chat/detail/interpreter.hpp"

#include "runtime/chat/detail/arguments.hpp"
#include "runtime/chat/detail/filters.hpp"
#include "runtime/chat/detail/operators.hpp"
#include "runtime/chat/detail/tests.hpp"
#include "runtime/chat/detail/value_text.hpp"

namespace gpunode::chat::detail {

// A scope within the one that is, or within another, while it lives.
class Interpreter::InScope {
 public:
  InScope(Interpreter& of, const HiddenNames& hidden) : InScope(of, hidden, of.scope_) {}
  InScope(Interpreter& of, const HiddenNames& hidden, ScopePointer outer)
      : of_(of), before_(of.scope_) {
    of_.scope_ = std::make_shared<Scope>(Scope{std::move(outer), {}});
    for (const std::string& name : hidden) of_.scope_->names[name] = undefined(name);
  }
  ~InScope() { of_.scope_ = before_; }
  InScope(const InScope&) = delete;

 private:
  Interpreter& of_;
  const ScopePointer before_;
};

Interpreter::Interpreter(const Dict& given, std::chrono::local_seconds now, Budget& budget)
    : given_(given), now_(now), budget_(budget) {}

Interpreter::~Interpreter() {
  for (const auto& one : namespaces_) one->attributes.clear();
  for (const ScopePointer& scope : kept_) scope->names.clear();
}

std::string Interpreter::run(const Syntax& syntax) {
  for (const std::string& name : syntax.hidden) scope_->names[name] = undefined(name);
  run_all(syntax.statements);
  return std::move(out_);
}

Interpreter::Flow Interpreter::run_all(const Statements& statements) {
  const Budget::Deeper deeper(budget_);
  for (const auto& statement : statements) {
    budget_.step();
    line_ = statement->line;
    const Flow flow = run_one(*statement);
    if (flow != Flow::on) return flow;
  }
  return Flow::on;
}

Interpreter::Flow Interpreter::run_one(const Statement& statement) {
  using enum Statement::Kind;
  switch (statement.kind) {
    case data:
      write(statement.text);
      return Flow::on;
    case print:
      write(printed(value_of(*statement.value), budget_));
      return Flow::on;
    case condition:
      return run_condition(statement);
    case loop:
      return run_loop(statement);
    case set:
      assign(statement.target, value_of(*statement.value));
      return Flow::on;
    case set_block:
      assign(statement.target, make_text(text_of(statement), budget_));
      return Flow::on;
    case block:
      write(text_of(statement));
      return Flow::on;
    case macro:
      define_macro(statement);
      return Flow::on;
    case leave:
      return Flow::leave;
    case skip:
      return Flow::skip;
  }
  return Flow::on;
}

void Interpreter::write(std::string_view text) {
  budget_.make(text.size());
  out_ += text;
}

std::string Interpreter::text_of(const Statement& block) {
  const InScope inner(*this, block.hidden);
  std::string before = std::exchange(out_, {});
  run_all(block.body);
  return std::exchange(out_, std::move(before));
}

Interpreter::Flow Interpreter::run_condition(const Statement& statement) {
  for (const auto& [condition, body] : statement.branches)
    if (!condition || truth(value_of(*condition))) return run_all(body);
  return Flow::on;
}

// The values of a loop that its `if` takes, each looked at when its turn comes.
IteratorPointer Interpreter::taken_values(const Statement& loop) {
  const Value whole = value_of(*loop.value);
  const IteratorPointer all = iterate(whole, budget_);
  if (!loop.filter) return all;
  keep_scopes();
  const auto next = [this, &loop, all, outer = scope_]() -> std::optional<Value> {
    while (auto value = all->next()) {
      const InScope inner(*this, {}, outer);
      assign(loop.target, *value);
      if (!truth(value_of(*loop.filter))) continue;
      if (!loop.target.several) return value;
      Values parts;
      for (const Target& part : loop.target.parts) parts.push_back(read(part.name));
      return make_list(std::move(parts), budget_, true);
    }
    return std::nullopt;
  };
  return std::get<IteratorPointer>(make_iterator(next, all, budget_));
}

Interpreter::Flow Interpreter::run_loop(const Statement& statement) {
  const auto loop = std::make_shared<Loop>(taken_values(statement));
  bool any = false;  // of its turns has gone to its end: so Jinja has it
  while (auto value = loop->advance()) {
    const InScope turn(*this, statement.hidden);
    scope_->names["loop"] = loop;
    assign(statement.target, *std::move(value));
    const Flow flow = run_all(statement.body);
    if (flow == Flow::leave) break;
    any = any || flow == Flow::on;
  }
  if (any || statement.otherwise.empty()) return Flow::on;
  const InScope inner(*this, statement.hidden_otherwise);
  return run_all(statement.otherwise);
}

void Interpreter::keep_scopes() {
  for (ScopePointer scope = scope_; scope; scope = scope->outer) {
    budget_.make(sizeof(Scope) + sizeof(ScopePointer));
    kept_.push_back(scope);
  }
}

void Interpreter::define_macro(const Statement& statement) {
  keep_scopes();
  const auto call = [this, &statement, outer = scope_](const Arguments& given) {
    return call_macro(statement, outer, given);
  };
  scope_->names[statement.text] = make_callable(statement.text, call, None{}, budget_);
}

Value Interpreter::call_macro(const Statement& macro, const ScopePointer& outer,
                              const Arguments& given) {
  const auto& parameters = macro.parameters;
  if (given.positional.size() > parameters.size())
    wrong("the macro '" + macro.text + "' is given too many arguments");
  const InScope inner(*this, macro.hidden, outer);
  std::map<std::string, Value, std::less<>>& names = scope_->names;
  for (std::size_t i = 0; i < given.positional.size(); ++i)
    names[parameters[i].first] = given.positional[i];
  for (const auto& [name, value] : given.named) {
    bool known = false;
    for (const auto& parameter : parameters) known = known || parameter.first == name;
    if (!known || !names.emplace(name, value).second)
      wrong("the macro '" + macro.text + "' takes no further '" + name + "'");
  }
  std::vector<const Expression*> defaults;
  for (const auto& [name, value] : parameters)
    defaults.push_back(names.emplace(name, undefined(name)).second ? value.get() : nullptr);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (defaults[i]) names[parameters[i].first] = value_of(*defaults[i]);
  std::string before = std::exchange(out_, {});
  run_all(macro.body);
  return make_text(std::exchange(out_, std::move(before)), budget_);
}

void Interpreter::assign(const Target& target, Value value) {
  if (target.several) {
    const IteratorPointer values = iterate(value, budget_);
    Values parts;
    while (parts.size() <= target.parts.size()) {
      auto part = values->next();
      if (!part) break;
      parts.push_back(*std::move(part));
    }
    if (parts.size() != target.parts.size())
      wrong("not as many values as names that they are set to");
    for (std::size_t i = 0; i < parts.size(); ++i) assign(target.parts[i], std::move(parts[i]));
  } else if (target.attribute.empty()) {
    budget_.make(sizeof(Value) + 64);
    scope_->names[target.name] = std::move(value);
  } else {
    const Value holder = read(target.name);
    const auto* names = std::get_if<NamespacePointer>(&holder);
    if (!names) wrong("'" + target.name + "' is no namespace: its attributes cannot be set");
    (*names)->attributes.put(make_text(target.attribute, budget_), std::move(value), budget_);
  }
}

Value Interpreter::read(const std::string& name) {
  for (const Scope* scope = scope_.get(); scope; scope = scope->outer.get())
    if (const auto found = scope->names.find(name); found != scope->names.end())
      return found->second;
  if (const Value* found = given_.find(name)) return *found;
  if (auto found = global_function(name, now_, namespaces_, budget_)) return *std::move(found);
  return undefined(name);
}

Value Interpreter::value_of(const Expression& expression) {
  const Budget::Deeper deeper(budget_);
  line_ = expression.line;
  const auto part = [&](std::size_t place) { return value_of(*expression.parts[place]); };
  using enum Expression::Kind;
  switch (expression.kind) {
    case constant:
      return expression.constant;
    case name:
      return read(expression.name);
    case list:
    case tuple:
    case dict:
      return literal(expression);
    case Expression::Kind::attribute:
      return detail::attribute(part(0), expression.name, budget_);
    case Expression::Kind::subscript: {
      const Value whole = part(0);
      return detail::subscript(whole, part(1), budget_);
    }
    case Expression::Kind::slice:
      return slice_of(expression);
    case call:
      return called(expression);
    case filter: {
      const Value value = part(0);
      return find_filter(expression.name)(value, arguments_of(expression), budget_);
    }
    case test: {
      const Value value = part(0);
      return find_test(expression.name)(value, arguments_of(expression), budget_);
    }
    default:
      return operation(expression);
  }
}

Value Interpreter::operation(const Expression& expression) {
  const auto part = [&](std::size_t place) { return value_of(*expression.parts[place]); };
  using enum Expression::Kind;
  switch (expression.kind) {
    case sign:
      return with_sign(expression.name, part(0));
    case negation:
      return !truth(part(0));
    case both: {
      Value left = part(0);
      return truth(left) ? part(1) : left;
    }
    case either: {
      Value left = part(0);
      return truth(left) ? left : part(1);
    }
    case joined: {
      std::string left = printed(part(0), budget_);
      return make_text(left + printed(part(1), budget_), budget_);
    }
    case Expression::Kind::arithmetic: {
      const Value left = part(0);
      return detail::arithmetic(expression.name, left, part(1), budget_);
    }
    case comparison:
      return compared(expression);
    case choice:
      if (truth(part(0))) return part(1);
      return expression.parts[2] ? part(2) : undefined("the else of an if");
    default:
      return undefined();
  }
}

Value Interpreter::literal(const Expression& expression) {
  if (expression.kind == Expression::Kind::dict) {
    Dict dict;
    for (std::size_t i = 0; i + 1 < expression.parts.size(); i += 2) {
      Value key = value_of(*expression.parts[i]);
      dict.put(std::move(key), value_of(*expression.parts[i + 1]), budget_);
    }
    return std::make_shared<const Dict>(std::move(dict));
  }
  Values items;
  for (const auto& part : expression.parts) items.push_back(value_of(*part));
  return make_list(std::move(items), budget_, expression.kind == Expression::Kind::tuple);
}

Value Interpreter::slice_of(const Expression& expression) {
  Values parts;
  for (const auto& part : expression.parts) parts.push_back(part ? value_of(*part) : None{});
  return detail::slice(parts[0], parts[1], parts[2], parts[3], budget_);
}

bool Interpreter::compared(const Expression& expression) {
  Value left = value_of(*expression.parts[0]);
  for (std::size_t i = 0; i < expression.signs.size(); ++i) {
    Value right = value_of(*expression.parts[i + 1]);
    if (!compare(expression.signs[i], left, right, budget_)) return false;
    left = std::move(right);
  }
  return true;
}

Arguments Interpreter::arguments_of(const Expression& expression) {
  Arguments arguments;
  for (std::size_t i = 1; i < expression.parts.size(); ++i)
    arguments.positional.push_back(value_of(*expression.parts[i]));
  for (const auto& [name, value] : expression.named)
    arguments.named.emplace_back(name, value_of(*value));
  return arguments;
}

Value Interpreter::called(const Expression& expression) {
  const Value what = value_of(*expression.parts[0]);
  const Arguments arguments = arguments_of(expression);
  line_ = expression.line;
  if (const auto* function = std::get_if<std::shared_ptr<const Callable>>(&what))
    return (*function)->call(arguments);
  if (const auto* nothing = std::get_if<Undefined>(&what))
    wrong("'" + (nothing->what ? *nothing->what : std::string("a value")) + "' is undefined");
  wrong("a " + std::string(kind_of(what)) + " cannot be called");
}

}  // namespace gpunode::chat::detail
