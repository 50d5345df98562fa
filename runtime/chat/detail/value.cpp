#include "runtime/chat/detail/value.hpp"

#include <algorithm>

#include "runtime/chat/detail/characters.hpp"

namespace gpunode::chat::detail {
namespace {

constexpr std::size_t kValueBytes = 2 * sizeof(Value);
constexpr std::size_t kFunctionBytes = 512;  // with what it holds

unsigned deeper(unsigned below) {
  if (below >= kNesting) too_much("values lie too deep in one another");
  return below + 1;
}

bool equal_items(const Values& left, const Values& right, Budget& budget) {
  if (left.size() != right.size()) return false;
  for (std::size_t i = 0; i < left.size(); ++i)
    if (!equal(left[i], right[i], budget)) return false;
  return true;
}

bool equal_dicts(const Dict& left, const Dict& right, Budget& budget) {
  if (left.items().size() != right.items().size()) return false;
  for (const auto& [key, value] : left.items()) {
    const Value* other = right.find(key, budget);
    if (!other || !equal(value, *other, budget)) return false;
  }
  return true;
}

bool equal_ranges(const Range& left, const Range& right) {
  const auto size = left.size();
  return size == right.size() && (size == 0 || left.start == right.start) &&
         (size <= 1 || left.step == right.step);
}

bool equal_views(const View& left, const View& right, Budget& budget) {
  if (left.of == View::Of::values || right.of == View::Of::values) return &left == &right;
  if (left.of != right.of) not_known("comparing views of dicts");
  for (const View* view : {&left, &right})
    if (view->of == View::Of::items)
      for (const auto& item : view->dict->items())
        if (!hashable(item.second)) not_known("comparing items that cannot be keys");
  if (left.of == View::Of::items) return equal_dicts(*left.dict, *right.dict, budget);
  if (left.dict->items().size() != right.dict->items().size()) return false;
  return std::all_of(left.dict->items().begin(), left.dict->items().end(),
                     [&](const auto& item) { return right.dict->find(item.first, budget); });
}

}  // namespace

void refuse_marked(const Value& value) {
  if (is<Marked>(value)) not_known("more than printing a text marked as safe");
}

std::optional<std::int64_t> integer_in(const Value& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  if (const auto* number = std::get_if<std::int64_t>(&value)) return *number;
  return std::nullopt;
}

std::optional<double> number_in(const Value& value) {
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto number = integer_in(value)) return static_cast<double>(*number);
  return std::nullopt;
}

void Dict::put(Value key, Value value, Budget& budget) {
  if (!hashable(key)) wrong("a " + std::string(kind_of(key)) + " cannot be a key");
  depth_ = std::max(depth_, deeper(std::max(depth_of(key), depth_of(value))));
  if (const auto at = place(key, budget)) {
    items_[*at].second = std::move(value);
    return;
  }
  budget.make(3 * kValueBytes);
  if (const std::string* text = text_in(key)) texts_.emplace(*text, items_.size());
  items_.emplace_back(std::move(key), std::move(value));
}

std::optional<std::size_t> Dict::place(const Value& key, Budget& budget) const {
  if (const std::string* text = text_in(key)) {
    const auto found = texts_.find(*text);
    return found == texts_.end() ? std::nullopt : std::optional(found->second);
  }
  if (!hashable(key)) return std::nullopt;
  for (std::size_t i = 0; i < items_.size(); ++i)
    if (equal(items_[i].first, key, budget)) return i;
  return std::nullopt;
}

const Value* Dict::find(const Value& key, Budget& budget) const {
  const auto at = place(key, budget);
  return at ? &items_[*at].second : nullptr;
}

const Value* Dict::find(std::string_view key) const {
  const auto found = texts_.find(key);
  return found == texts_.end() ? nullptr : &items_[found->second].second;
}

void Dict::clear() {
  texts_.clear();
  std::exchange(items_, {}).clear();
}

std::int64_t Range::size() const {
  if (step > 0 ? start >= stop : start <= stop) return 0;
  return step > 0 ? (stop - start - 1) / step + 1 : (start - stop - 1) / -step + 1;
}

Iterator::Iterator(Next next, unsigned depth) : next_(std::move(next)), depth_(depth) {}

std::optional<Value> Iterator::next() {
  if (!next_) return std::nullopt;
  auto value = next_();
  if (!value) next_ = nullptr;
  return value;
}

Value make_text(std::string text, Budget& budget) {
  budget.make(text.size() + kValueBytes);
  return std::make_shared<const std::string>(std::move(text));
}

Value make_list(Values items, Budget& budget, bool tuple) {
  budget.make((items.size() + 2) * kValueBytes);
  unsigned below = 0;
  for (const Value& item : items) below = std::max(below, depth_of(item));
  return std::make_shared<const Sequence>(Sequence{std::move(items), tuple, deeper(below)});
}

Value make_iterator(Iterator::Next next, const Value& of, Budget& budget) {
  budget.make(kFunctionBytes);
  return std::make_shared<Iterator>(std::move(next), deeper(depth_of(of)));
}

Value make_callable(std::string name, std::function<Value(const Arguments&)> call, const Value& of,
                    Budget& budget) {
  budget.make(kFunctionBytes);
  return std::make_shared<const Callable>(
      Callable{std::move(name), std::move(call), deeper(depth_of(of))});
}

Value undefined(std::string what) {
  return Undefined{what.empty() ? nullptr : std::make_shared<const std::string>(std::move(what))};
}

unsigned depth_of(const Value& value) {
  if (const auto* list = std::get_if<SequencePointer>(&value)) return (*list)->depth;
  if (const Dict* dict = dict_in(value)) return dict->depth();
  if (const auto* view = std::get_if<std::shared_ptr<const View>>(&value))
    return (*view)->dict->depth() + 1;
  if (const auto* iterator = std::get_if<IteratorPointer>(&value)) return (*iterator)->depth();
  if (const auto* call = std::get_if<std::shared_ptr<const Callable>>(&value))
    return (*call)->depth;
  if (const auto* loop = std::get_if<std::shared_ptr<Loop>>(&value)) return (*loop)->depth();
  return 0;
}

std::string_view kind_of(const Value& value) {
  if (const auto* list = std::get_if<SequencePointer>(&value))
    return (*list)->tuple ? "tuple" : "list";
  constexpr std::string_view kNames[] = {"value that is undefined",
                                         "none",
                                         "boolean",
                                         "integer",
                                         "number",
                                         "text",
                                         "list",
                                         "dict",
                                         "view",
                                         "range",
                                         "sequence made as it is asked",
                                         "namespace",
                                         "function",
                                         "loop",
                                         "text marked as safe"};
  static_assert(std::size(kNames) == std::variant_size_v<Value>);
  return kNames[value.index()];
}

bool truth(const Value& value) {
  if (const auto* marked = std::get_if<Marked>(&value)) return !marked->text->empty();
  if (is<Undefined>(value) || is<None>(value)) return false;
  if (const auto number = number_in(value)) return *number != 0;
  const auto length = length_of(value);
  return !length || *length != 0;
}

bool equal(const Value& left, const Value& right, Budget& budget) {
  budget.step();
  for (const Value* side : {&left, &right}) refuse_marked(*side);
  const auto one = number_in(left), other = number_in(right);
  if (one && other) {
    const auto whole = integer_in(left), other_whole = integer_in(right);
    if (whole && other_whole) return *whole == *other_whole;
    const long double a = whole ? static_cast<long double>(*whole) : *one;
    const long double b = other_whole ? static_cast<long double>(*other_whole) : *other;
    return a == b;
  }
  if (left.index() != right.index()) return false;
  return std::visit(
      [&](const auto& a) -> bool {
        using T = std::decay_t<decltype(a)>;
        const T& b = std::get<T>(right);
        if constexpr (std::is_same_v<T, Undefined> || std::is_same_v<T, None> ||
                      std::is_same_v<T, Marked>) {
          return true;
        } else if constexpr (std::is_same_v<T, Text>) {
          budget.step(std::min(a->size(), b->size()) / 64);
          return *a == *b;
        } else if constexpr (std::is_same_v<T, SequencePointer>) {
          return a == b || (a->tuple == b->tuple && equal_items(a->items, b->items, budget));
        } else if constexpr (std::is_same_v<T, DictPointer>) {
          return a == b || equal_dicts(*a, *b, budget);
        } else if constexpr (std::is_same_v<T, std::shared_ptr<const View>>) {
          return equal_views(*a, *b, budget);
        } else if constexpr (std::is_same_v<T, std::shared_ptr<const Range>>) {
          return equal_ranges(*a, *b);
        } else if constexpr (std::is_same_v<T, std::shared_ptr<const Callable>>) {
          if (a != b) not_known("comparing functions");
          return true;
        } else {
          return a == b;
        }
      },
      left);
}

bool less(const Value& left, const Value& right, Budget& budget, bool or_equal) {
  budget.step();
  for (const Value* side : {&left, &right}) refuse_marked(*side);
  const auto one = number_in(left), other = number_in(right);
  if (one && other) {
    const auto whole = integer_in(left), other_whole = integer_in(right);
    const long double a = whole ? static_cast<long double>(*whole) : *one;
    const long double b = other_whole ? static_cast<long double>(*other_whole) : *other;
    return or_equal ? a <= b : a < b;
  }
  const std::string *text = text_in(left), *other_text = text_in(right);
  if (text && other_text) {  // the order of bytes is the order of characters
    budget.step(std::min(text->size(), other_text->size()) / 64);
    return or_equal ? *text <= *other_text : *text < *other_text;
  }
  const auto* list = std::get_if<SequencePointer>(&left);
  const auto* other_list = std::get_if<SequencePointer>(&right);
  if (!list || !other_list || (*list)->tuple != (*other_list)->tuple)
    wrong("a " + std::string(kind_of(left)) + " and a " + std::string(kind_of(right)) +
          " have no order");
  const Values &a = (*list)->items, &b = (*other_list)->items;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (!equal(a[i], b[i], budget)) return less(a[i], b[i], budget, or_equal);
  return or_equal ? a.size() <= b.size() : a.size() < b.size();
}

bool hashable(const Value& value) {
  refuse_marked(value);
  if (const auto* list = std::get_if<SequencePointer>(&value))
    return (*list)->tuple && std::all_of((*list)->items.begin(), (*list)->items.end(), hashable);
  if (is<std::shared_ptr<const View>>(value))
    return std::get<std::shared_ptr<const View>>(value)->of == View::Of::values;
  return !is<DictPointer>(value);
}

std::optional<std::int64_t> length_of(const Value& value) {
  refuse_marked(value);
  if (is<Undefined>(value)) return 0;
  if (const std::string* text = text_in(value)) return character_count(*text);
  if (const auto* list = std::get_if<SequencePointer>(&value))
    return static_cast<std::int64_t>((*list)->items.size());
  if (const auto* view = std::get_if<std::shared_ptr<const View>>(&value))
    return static_cast<std::int64_t>((*view)->dict->items().size());
  if (const Dict* dict = dict_in(value)) return static_cast<std::int64_t>(dict->items().size());
  if (const auto* range = std::get_if<std::shared_ptr<const Range>>(&value))
    return (*range)->size();
  return std::nullopt;
}

bool iterable(const Value& value) {
  return length_of(value) || is<IteratorPointer>(value) || is<std::shared_ptr<Loop>>(value);
}

IteratorPointer iterate(const Value& value, Budget& budget) {
  if (const auto* iterator = std::get_if<IteratorPointer>(&value)) return *iterator;
  if (is<std::shared_ptr<Loop>>(value)) not_known("going through `loop`");
  const auto length = length_of(value);
  if (!length) wrong("a " + std::string(kind_of(value)) + " cannot be gone through");
  Iterator::Next next;
  if (const std::string* text = text_in(value)) {
    next = [whole = value, rest = std::string_view(*text),
            &budget]() mutable -> std::optional<Value> {
      if (rest.empty()) return std::nullopt;
      budget.step();
      return make_text(take_character_bytes(rest), budget);
    };
  } else {
    next = [value, at = std::int64_t{0}, &budget]() mutable -> std::optional<Value> {
      if (at >= *length_of(value)) return std::nullopt;
      budget.step();
      const auto index = static_cast<std::size_t>(at++);
      if (const auto* list = std::get_if<SequencePointer>(&value)) return (*list)->items[index];
      if (const Dict* dict = dict_in(value)) return dict->items()[index].first;
      if (const auto* range = std::get_if<std::shared_ptr<const Range>>(&value))
        return (*range)->at(at - 1);
      const View& view = *std::get<std::shared_ptr<const View>>(value);
      const auto& [key, stands] = view.dict->items()[index];
      if (view.of == View::Of::keys) return key;
      if (view.of == View::Of::values) return stands;
      return make_list({key, stands}, budget, true);
    };
  }
  return std::get<IteratorPointer>(make_iterator(std::move(next), value, budget));
}

Values all_of(const Value& value, Budget& budget) {
  Values all;
  const IteratorPointer iterator = iterate(value, budget);
  while (auto one = iterator->next()) {
    budget.make(kValueBytes);
    all.push_back(*std::move(one));
  }
  return all;
}

}  // namespace gpunode::chat::detail
