#include "runtime/chat/detail/scopes.hpp"

#include <set>
#include <string_view>

namespace gpunode::chat::detail {
namespace {

// The names of one scope, as they are met from its beginning to its end.
class Names {
 public:
  explicit Names(const Names* outer) : outer_(outer) {}

  void read(const std::string& name) {
    if (!known(name)) own_.insert(name);
  }
  void set(const std::string& name) {
    set_.insert(name);
    if (own_.insert(name).second && !(outer_ && outer_->known(name))) hidden_.insert(name);
  }
  void give(const std::string& name) {
    set_.insert(name);
    own_.insert(name);
  }

  // What only a branch sets may have a value from outside.
  void take_branches(const std::vector<Names>& branches) {
    for (const Names& branch : branches) own_.insert(branch.own_.begin(), branch.own_.end());
    for (const Names& branch : branches) set_.insert(branch.set_.begin(), branch.set_.end());
  }

  HiddenNames hidden() const { return {hidden_.begin(), hidden_.end()}; }

 private:
  bool known(const std::string& name) const {
    return own_.contains(name) || (outer_ && outer_->known(name));
  }

  const Names* outer_;
  std::set<std::string> own_, set_, hidden_;
};

void read(const Expression* value, Names& names) {
  if (!value) return;
  if (value->kind == Expression::Kind::name) names.read(value->name);
  for (const auto& part : value->parts) read(part.get(), names);
  for (const auto& [name, part] : value->named) read(part.get(), names);
}

void meet_target(const Target& target, Names& names, bool given = false) {
  for (const Target& part : target.parts) meet_target(part, names, given);
  if (target.several) return;
  if (!target.attribute.empty())
    names.read(target.name);
  else if (given)
    names.give(target.name);
  else
    names.set(target.name);
}

void meet(const Statements& statements, Names& names);

void meet_branches(const Statement& statement, Names& names) {
  read(statement.branches.front().first.get(), names);
  std::vector<Names> branches{names, names, names};  // if, all elif, else
  for (std::size_t i = 0; i < statement.branches.size(); ++i) {
    const auto& [condition, body] = statement.branches[i];
    if (i == 0 || !condition) {
      meet(body, branches[i == 0 ? 0 : 2]);
      continue;
    }
    read(condition.get(), branches[1]);
    std::vector<Names> inner{branches[1]};
    meet(body, inner[0]);
    branches[1].take_branches(inner);
  }
  names.take_branches(branches);
}

// All but what lies in scopes of their own.
void meet(const Statements& statements, Names& names) {
  using enum Statement::Kind;
  for (const auto& one : statements) {
    if (one->kind == condition) {
      meet_branches(*one, names);
    } else if (one->kind == macro) {
      names.set(one->text);
    } else {
      read(one->value.get(), names);
      if (one->kind == Statement::Kind::set || one->kind == set_block)
        meet_target(one->target, names);
    }
  }
}

void note_inner(Statements& statements, const Names& outer);

HiddenNames note(Statements& body, Names names) {
  meet(body, names);
  note_inner(body, names);
  return names.hidden();
}

void note_inner(Statements& statements, const Names& outer) {
  using enum Statement::Kind;
  for (auto& one : statements) {
    for (auto& branch : one->branches) note_inner(branch.second, outer);
    if (one->kind == loop) {
      Names inner(&outer);
      meet_target(one->target, inner, true);
      inner.give("loop");
      one->hidden = note(one->body, std::move(inner));
      one->hidden_otherwise = note(one->otherwise, Names(&outer));
    } else if (one->kind == macro) {
      Names inner(&outer);
      for (const auto& [name, value] : one->parameters) inner.give(name);
      for (const auto& [name, value] : one->parameters) read(value.get(), inner);
      one->hidden = note(one->body, std::move(inner));
    } else if (one->kind == set_block || one->kind == block) {
      one->hidden = note(one->body, Names(&outer));
    }
  }
}

}  // namespace

HiddenNames note_hidden_names(Statements& statements) {
  return note(statements, Names(nullptr));
}

}  // namespace gpunode::chat::detail
