// Filters that go through many values. Those that give many make them as they are asked for, once.
#include <algorithm>

#include "runtime/chat/detail/arguments.hpp"
#include "runtime/chat/detail/characters.hpp"
#include "runtime/chat/detail/filters.hpp"
#include "runtime/chat/detail/operators.hpp"
#include "runtime/chat/detail/tests.hpp"
#include "runtime/chat/detail/value_text.hpp"

namespace gpunode::chat::detail {
namespace {

// The places that a path as "a.b.0" names, one in another.
Values path_of(const Value& path, Budget& budget) {
  const std::string* text = text_in(path);
  if (!text) return is<None>(path) ? Values{} : Values{path};
  Values parts;
  for (std::string_view rest = *text;;) {
    const auto dot = rest.find('.');
    const std::string part(rest.substr(0, dot));
    if (!part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == part.npos)
      parts.emplace_back(std::int64_t{std::stol(part)});
    else
      parts.push_back(make_text(part, budget));
    if (dot == rest.npos) return parts;
    rest.remove_prefix(dot + 1);
  }
}

Value at_path(Value value, const Values& path, Budget& budget, const Value* otherwise = nullptr) {
  for (const Value& part : path) {
    value = subscript(value, part, budget);
    if (otherwise && is<Undefined>(value)) value = *otherwise;
  }
  return value;
}

Value without_case(Value value, bool case_sensitive, Budget& budget) {
  const std::string* text = text_in(value);
  return text && !case_sensitive ? make_text(lower(*text), budget) : value;
}

Value length(const Value& value, const Arguments& given, Budget& budget) {
  const Bound bound("length", given, {});
  if (text_in(value)) budget.step(text_in(value)->size() / 64);
  const auto length = length_of(value);
  if (!length) wrong("a " + std::string(kind_of(value)) + " has no length");
  return *length;
}

Value join(const Value& value, const Arguments& given, Budget& budget) {
  const Bound bound("join", given, {"d", "attribute"});
  const std::string between = bound[0] ? printed(*bound[0], budget) : "";
  const Values path = bound[1] ? path_of(*bound[1], budget) : Values{};
  std::string whole;
  const IteratorPointer items = iterate(value, budget);
  for (bool first = true; auto item = items->next(); first = false) {
    if (!first) whole += between;
    budget.make(between.size());
    whole += printed(at_path(*std::move(item), path, budget), budget);
  }
  return make_text(std::move(whole), budget);
}

Value first(const Value& value, const Arguments& given, Budget& budget) {
  const Bound bound("first", given, {});
  return iterate(value, budget)->next().value_or(undefined("the first of nothing"));
}

// From the last to the first.
Value reversed(const Value& value, Budget& budget, std::string_view what) {
  if (!length_of(value)) wrong(std::string(what) + " of a " + std::string(kind_of(value)));
  Values items = all_of(value, budget);
  return make_iterator(
      [items = std::move(items)]() mutable -> std::optional<Value> {
        if (items.empty()) return std::nullopt;
        Value last = std::move(items.back());
        items.pop_back();
        return last;
      },
      value, budget);
}

Value last(const Value& value, const Arguments& given, Budget& budget) {
  const Bound bound("last", given, {});
  const Value items = reversed(value, budget, "last");
  return std::get<IteratorPointer>(items)->next().value_or(undefined("the last of nothing"));
}

Value reverse(const Value& value, const Arguments& given, Budget& budget) {
  const Bound bound("reverse", given, {});
  if (const std::string* text = text_in(value)) {
    budget.make(4 * text->size());
    auto characters = characters_of(*text);
    std::reverse(characters.begin(), characters.end());
    return make_text(text_of(characters), budget);
  }
  if (!is<IteratorPointer>(value)) return reversed(value, budget, "reverse");
  Values items = all_of(value, budget);
  std::reverse(items.begin(), items.end());
  return make_list(std::move(items), budget);
}

Value list(const Value& value, const Arguments& given, Budget& budget) {
  const Bound bound("list", given, {});
  return make_list(all_of(value, budget), budget);
}

Value otherwise(const Value& value, const Arguments& given, Budget& budget) {
  const Bound bound("default", given, {"default_value", "boolean"});
  if (!is<Undefined>(value) && !(bound.truth_of(1) && !truth(value))) return value;
  return bound[0] ? *bound[0] : make_text({}, budget);
}

Value items(const Value& value, const Arguments& given, Budget& budget) {
  const Bound bound("items", given, {});
  if (is<Undefined>(value)) return make_iterator([] { return std::nullopt; }, value, budget);
  const auto* dict = std::get_if<DictPointer>(&value);
  return make_iterator(
      [value, inner = IteratorPointer(),
       view = dict ? std::make_shared<const View>(View{*dict, View::Of::items}) : nullptr,
       &budget]() mutable {
        if (!view) wrong("items of a " + std::string(kind_of(value)));
        if (!inner) inner = iterate(view, budget);
        return inner->next();
      },
      value, budget);
}

Value dictsort(const Value& value, const Arguments& given, Budget& budget) {
  const Bound bound("dictsort", given, {"case_sensitive", "by", "reverse"});
  const std::string by = bound[1] ? bound.text(1) : "key";
  if (by != "key" && by != "value") wrong("dictsort sorts by 'key' or 'value'");
  const Dict* dict = dict_in(value);
  if (!dict) wrong("dictsort of a " + std::string(kind_of(value)));
  std::vector<std::pair<Value, const Dict::Item*>> sorted;
  for (const Dict::Item& item : dict->items())
    sorted.emplace_back(
        without_case(by == "key" ? item.first : item.second, bound.truth_of(0), budget), &item);
  const bool down = bound.truth_of(2);
  std::stable_sort(sorted.begin(), sorted.end(), [&](const auto& one, const auto& other) {
    return down ? less(other.first, one.first, budget) : less(one.first, other.first, budget);
  });
  Values pairs;
  for (const auto& [key, item] : sorted)
    pairs.push_back(make_list({item->first, item->second}, budget, true));
  return make_list(std::move(pairs), budget);
}

Value sort(const Value& value, const Arguments& given, Budget& budget) {
  const Bound bound("sort", given, {"reverse", "case_sensitive", "attribute"});
  std::vector<Values> paths;
  const std::string* names = bound[2] ? text_in(*bound[2]) : nullptr;
  for (std::string_view rest = names ? std::string_view(*names) : std::string_view(); names;) {
    const auto comma = rest.find(',');
    paths.push_back(path_of(make_text(std::string(rest.substr(0, comma)), budget), budget));
    if (comma == rest.npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (!names) paths.push_back(bound[2] ? path_of(*bound[2], budget) : Values{});
  std::vector<std::pair<Value, Value>> sorted;
  for (Value& item : all_of(value, budget)) {
    Values key;
    for (const Values& path : paths)
      key.push_back(without_case(at_path(item, path, budget), bound.truth_of(1), budget));
    sorted.emplace_back(make_list(std::move(key), budget), std::move(item));
  }
  const bool down = bound.truth_of(0);
  std::stable_sort(sorted.begin(), sorted.end(), [&](const auto& one, const auto& other) {
    return down ? less(other.first, one.first, budget) : less(one.first, other.first, budget);
  });
  Values items;
  for (auto& [key, item] : sorted) items.push_back(std::move(item));
  return make_list(std::move(items), budget);
}

// What a filter goes through, asked for with the first value it must give.
class Source {
 public:
  Source(Value value, Budget& budget) : value_(std::move(value)), budget_(&budget) {}
  std::optional<Value> next(bool unless_false = false) {
    if (unless_false && !items_ && !truth(value_)) return std::nullopt;
    if (!items_) items_ = iterate(value_, *budget_);
    return items_->next();
  }

 private:
  Value value_;
  Budget* budget_;
  IteratorPointer items_;
};

Value unique(const Value& value, const Arguments& given, Budget& budget) {
  const Bound bound("unique", given, {"case_sensitive", "attribute"});
  return make_iterator(
      [source = Source(value, budget), seen = std::make_shared<Dict>(),
       path = bound[1] ? path_of(*bound[1], budget) : Values{}, case_sensitive = bound.truth_of(0),
       &budget]() mutable -> std::optional<Value> {
        while (auto item = source.next()) {
          Value key = without_case(at_path(*item, path, budget), case_sensitive, budget);
          const std::size_t before = seen->items().size();
          seen->put(std::move(key), None{}, budget);
          if (seen->items().size() > before) return item;
        }
        return std::nullopt;
      },
      value, budget);
}

Arguments rest_of(const Arguments& given, std::size_t from) {
  Arguments rest{{}, given.named};
  if (given.positional.size() > from)
    rest.positional.assign(given.positional.begin() + static_cast<std::ptrdiff_t>(from),
                           given.positional.end());
  return rest;
}

// The function that `map` asks of each value; made with the first, as its mistakes are.
std::function<Value(Value)> mapping_of(const Arguments& given, Budget& budget) {
  if (given.positional.empty()) {
    const Bound bound("map", given, {"attribute", "default"}, 1);
    return [path = path_of(*bound[0], budget),
            otherwise = bound.unless_none(1) ? std::optional(*bound[1]) : std::nullopt,
            &budget](Value value) {
      return at_path(std::move(value), path, budget, otherwise ? &*otherwise : nullptr);
    };
  }
  const std::string* name = text_in(given.positional[0]);
  const Filter filter = name ? find_filter(*name) : nullptr;
  if (!filter) not_known("the filter of map");
  return [filter, rest = rest_of(given, 1), &budget](Value value) {
    return filter(value, rest, budget);
  };
}

Value map(const Value& value, const Arguments& given, Budget& budget) {
  return make_iterator(
      [source = Source(value, budget), given, call = std::function<Value(Value)>(),
       &budget]() mutable -> std::optional<Value> {
        auto item = source.next(true);
        if (!item) return std::nullopt;
        const Budget::Deeper deeper(budget);
        if (!call) call = mapping_of(given, budget);
        return call(*std::move(item));
      },
      value, budget);
}

// Whether `select` and its kind take a value: by a test, of it or of what stands at a path in it.
std::function<bool(const Value&)> choice_of(const Arguments& given, bool by_path, Budget& budget) {
  const std::size_t before = by_path ? 1 : 0;
  if (given.positional.size() < before) wrong("a filter is not given which attribute");
  const Values path = by_path ? path_of(given.positional[0], budget) : Values{};
  if (given.positional.size() == before)
    return [path, &budget](const Value& value) { return truth(at_path(value, path, budget)); };
  const std::string* name = text_in(given.positional[before]);
  const Test test = name ? find_test(*name) : nullptr;
  if (!test) not_known("the test of a filter");
  return [path, test, rest = rest_of(given, before + 1), &budget](const Value& value) {
    return test(at_path(value, path, budget), rest, budget);
  };
}

template <bool wanted, bool by_path>
Value chosen(const Value& value, const Arguments& given, Budget& budget) {
  return make_iterator(
      [source = Source(value, budget), given, takes = std::function<bool(const Value&)>(),
       &budget]() mutable -> std::optional<Value> {
        while (auto item = source.next(true)) {
          const Budget::Deeper deeper(budget);
          if (!takes) takes = choice_of(given, by_path, budget);
          if (takes(*item) == wanted) return item;
        }
        return std::nullopt;
      },
      value, budget);
}

}  // namespace

const FilterTable& list_filters() {
  static const FilterTable filters{{"length", length},
                                   {"count", length},
                                   {"join", join},
                                   {"first", first},
                                   {"last", last},
                                   {"reverse", reverse},
                                   {"list", list},
                                   {"default", otherwise},
                                   {"d", otherwise},
                                   {"items", items},
                                   {"dictsort", dictsort},
                                   {"sort", sort},
                                   {"unique", unique},
                                   {"map", map},
                                   {"select", chosen<true, false>},
                                   {"reject", chosen<false, false>},
                                   {"selectattr", chosen<true, true>},
                                   {"rejectattr", chosen<false, true>}};
  return filters;
}

}  // namespace gpunode::chat::detail
