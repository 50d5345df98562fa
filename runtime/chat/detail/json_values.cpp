#include "runtime/chat/detail/json_values.hpp"

#include <nlohmann/json.hpp>

#include <limits>

namespace gpunode::chat::detail {
namespace {

using Json = nlohmann::json;

// Builds values as the text is read, from the inside out.
class Reader final : public nlohmann::json_sax<Json> {
 public:
  explicit Reader(Budget& budget) : budget_(budget) {}
  Value whole() { return std::move(whole_); }

  bool null() override { return add(None{}); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override {
    if (value > std::numeric_limits<std::int64_t>::max()) not_known("an integer beyond 64 bits");
    return add(static_cast<std::int64_t>(value));
  }
  bool number_float(double value, const std::string& text) override {
    if (text.find_first_of(".eE") == text.npos) not_known("an integer beyond 64 bits");
    return add(value);
  }
  bool string(std::string& text) override { return add(make_text(std::move(text), budget_)); }
  bool binary(Json::binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(true); }
  bool start_array(std::size_t) override { return open(false); }
  bool key(std::string& text) override {
    open_.back().key = make_text(std::move(text), budget_);
    return true;
  }
  bool end_object() override {
    auto dict = std::move(open_.back().dict);
    open_.pop_back();
    return add(DictPointer(std::move(dict)));
  }
  bool end_array() override {
    Values items = std::move(open_.back().items);
    open_.pop_back();
    return add(make_list(std::move(items), budget_));
  }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) override {
    return false;
  }

 private:
  struct Open {
    std::shared_ptr<Dict> dict;  // null: a list
    Value key;
    Values items;
  };

  bool open(bool dict) {
    if (open_.size() >= kNesting) too_much("JSON lies too deep in itself");
    budget_.make(sizeof(Open) + sizeof(Dict));
    open_.emplace_back();
    if (dict) open_.back().dict = std::make_shared<Dict>();
    return true;
  }

  bool add(Value value) {
    budget_.step();
    if (open_.empty())
      whole_ = std::move(value);
    else if (open_.back().dict)
      open_.back().dict->put(std::move(open_.back().key), std::move(value), budget_);
    else
      open_.back().items.push_back(std::move(value));
    return true;
  }

  Budget& budget_;
  std::vector<Open> open_;
  Value whole_;
};

}  // namespace

Value value_of_json(std::string_view json, std::string_view what, Budget& budget) {
  Reader reader(budget);
  if (!Json::sax_parse(json, &reader)) wrong(std::string(what) + " is no JSON");
  return reader.whole();
}

}  // namespace gpunode::chat::detail
