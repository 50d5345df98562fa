// Walks through a template's statements and writes what they print. Names live in scopes as Jinja has
// them: a loop's turn, a macro and a block that is set have one each, and what is set there ends
// there. One rendering, one thread; throws a ThrownError, and then line() says where.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "runtime/chat/detail/functions.hpp"
#include "runtime/chat/detail/syntax.hpp"

namespace gpunode::chat::detail {

class Interpreter {
 public:
  Interpreter(const Dict& given, std::chrono::local_seconds now, Budget& budget);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;

  std::string run(const Syntax& syntax);
  int line() const { return line_; }

 private:
  struct Scope {
    std::shared_ptr<Scope> outer;
    std::map<std::string, Value, std::less<>> names;
  };
  using ScopePointer = std::shared_ptr<Scope>;
  enum class Flow { on, leave, skip };  // leave or skip: out of the innermost loop, or of its turn
  class InScope;

  Flow run_all(const Statements& statements);
  Flow run_one(const Statement& statement);
  Flow run_condition(const Statement& statement);
  Flow run_loop(const Statement& statement);
  void define_macro(const Statement& statement);
  Value call_macro(const Statement& macro, const ScopePointer& outer, const Arguments& given);
  void write(std::string_view text);
  // What the statements print, in a scope of their own.
  std::string text_of(const Statement& block);
  // Until the end, so that no circle of scopes and what they hold is left.
  void keep_scopes();

  void assign(const Target& target, Value value);
  IteratorPointer taken_values(const Statement& loop);
  Value read(const std::string& name);

  Value value_of(const Expression& expression);
  Value operation(const Expression& expression);
  Value literal(const Expression& expression);
  Value slice_of(const Expression& expression);
  Value called(const Expression& expression);
  Arguments arguments_of(const Expression& expression);
  bool compared(const Expression& expression);

  const Dict& given_;
  const std::chrono::local_seconds now_;
  Budget& budget_;
  ScopePointer scope_ = std::make_shared<Scope>();
  std::string out_;
  int line_ = 1;
  Namespaces namespaces_;
  std::vector<ScopePointer> kept_;  // by macros, which may be kept by them
};

}  // namespace gpunode::chat::detail
