// What expressions of a template have as values, with Python's meaning of equal, less, true and so
// on, as templates are written for it. Immutable but for namespaces and iterators; shared by pointer.
// Functions that look at many values take them from a budget, and throw a ThrownError.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/chat/detail/budget.hpp"

namespace gpunode::chat::detail {

struct Undefined {
  std::shared_ptr<const std::string> what;  // which name has no value; may be null
};
struct None {};
struct Sequence;
class Dict;
struct View;
struct Range;
class Iterator;
struct Namespace;
struct Callable;
class Loop;

using Text = std::shared_ptr<const std::string>;
// What the filter `safe` gives. It is printed as any text; put together with others it would change
// them, so that all else than printing it is not known here.
struct Marked {
  Text text;
};
using SequencePointer = std::shared_ptr<const Sequence>;
using DictPointer = std::shared_ptr<const Dict>;
using IteratorPointer = std::shared_ptr<Iterator>;
using NamespacePointer = std::shared_ptr<Namespace>;
using Value =
    std::variant<Undefined, None, bool, std::int64_t, double, Text, SequencePointer, DictPointer,
                 std::shared_ptr<const View>, std::shared_ptr<const Range>, IteratorPointer,
                 NamespacePointer, std::shared_ptr<const Callable>, std::shared_ptr<Loop>, Marked>;
using Values = std::vector<Value>;

template <class T>
bool is(const Value& value) {
  return std::holds_alternative<T>(value);
}
// Throws for a text that is marked as safe, as most functions do with such.
void refuse_marked(const Value& value);
// Null: it is of another kind.
inline const std::string* text_in(const Value& value) {
  const auto* text = std::get_if<Text>(&value);
  return text ? text->get() : nullptr;
}
inline const Dict* dict_in(const Value& value) {
  const auto* dict = std::get_if<DictPointer>(&value);
  return dict ? dict->get() : nullptr;
}
// Of an integer, or of true and false, which count as 1 and 0.
std::optional<std::int64_t> integer_in(const Value& value);
std::optional<double> number_in(const Value& value);

struct Sequence {
  Values items;
  bool tuple = false;
  unsigned depth = 1;
};

// In the order in which keys came first.
class Dict {
 public:
  using Item = std::pair<Value, Value>;
  void put(Value key, Value value, Budget& budget);
  // Null: it has none of that key.
  const Value* find(const Value& key, Budget& budget) const;
  const Value* find(std::string_view key) const;
  const std::vector<Item>& items() const { return items_; }
  unsigned depth() const { return depth_; }
  void clear();

 private:
  std::optional<std::size_t> place(const Value& key, Budget& budget) const;

  std::vector<Item> items_;
  std::unordered_map<std::string_view, std::size_t> texts_;  // of keys that are text
  unsigned depth_ = 1;
};

// What d.keys(), d.values() and d.items() are.
struct View {
  enum class Of { keys, values, items };
  DictPointer dict;
  Of of;
};

struct Range {
  std::int64_t start = 0, stop = 0, step = 1;
  std::int64_t size() const;
  std::int64_t at(std::int64_t index) const { return start + index * step; }
};

// Gives each value once, and is made as it is asked: what a filter such as `select` returns.
class Iterator {
 public:
  using Next = std::function<std::optional<Value>()>;
  Iterator(Next next, unsigned depth);
  std::optional<Value> next();

  unsigned depth() const { return depth_; }

 private:
  Next next_;
  unsigned depth_;
};

struct Namespace {
  Dict attributes;
};

struct Arguments {
  Values positional;
  std::vector<std::pair<std::string, Value>> named;
};
struct Callable {
  std::string name;
  std::function<Value(const Arguments&)> call;
  unsigned depth = 1;
};

// `loop` in the body of a for.
class Loop {
 public:
  explicit Loop(IteratorPointer rest) : rest_(std::move(rest)) {}
  // On to the next value; none: the loop is over.
  std::optional<Value> advance();
  // As in loop.index; none: it has no such attribute.
  std::optional<Value> attribute(std::string_view name);
  unsigned depth() const { return rest_->depth() + 1; }

 private:
  std::int64_t length();
  const std::optional<Value>& peek();

  IteratorPointer rest_;
  Values ahead_;  // taken off `rest_` to know the length, from `ahead_at_` on
  std::size_t ahead_at_ = 0;
  std::optional<Value> next_, current_, before_;
  bool peeked_ = false;
  std::int64_t index_ = -1;
  std::optional<std::int64_t> length_;
};

Value make_text(std::string text, Budget& budget);
Value make_list(Values items, Budget& budget, bool tuple = false);
Value make_iterator(Iterator::Next next, const Value& of, Budget& budget);
Value make_callable(std::string name, std::function<Value(const Arguments&)> call, const Value& of,
                    Budget& budget);
Value undefined(std::string what = {});

unsigned depth_of(const Value& value);
std::string_view kind_of(const Value& value);  // for errors
bool truth(const Value& value);
bool equal(const Value& left, const Value& right, Budget& budget);
// Throws for values that have no order.
bool less(const Value& left, const Value& right, Budget& budget, bool or_equal = false);
bool hashable(const Value& value);
// None: it has no length.
std::optional<std::int64_t> length_of(const Value& value);
bool iterable(const Value& value);
// Over a dict's keys, a text's characters; throws for what cannot be gone through.
IteratorPointer iterate(const Value& value, Budget& budget);
Values all_of(const Value& value, Budget& budget);

}  // namespace gpunode::chat::detail
