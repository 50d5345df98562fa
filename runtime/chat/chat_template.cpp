#include "runtime/chat/chat_template.hpp"

#include "runtime/base/utf8.hpp"
#include "runtime/chat/detail/interpreter.hpp"
#include "runtime/chat/detail/json_values.hpp"
#include "runtime/chat/detail/parser.hpp"

namespace gpunode::chat {
namespace {

using namespace detail;

constexpr std::size_t kSourceBytes = 1 << 20;

Dict names_of(const ChatInput& input, Budget& budget) {
  Dict names;
  const auto put = [&](const std::string& name, Value value) {
    names.put(make_text(name, budget), std::move(value), budget);
  };
  const auto json = [&](std::string_view text, std::string_view what) {
    return text.empty() ? Value(None{}) : value_of_json(text, what, budget);
  };
  for (const auto& [name, token] : input.special_tokens) put(name, make_text(token, budget));
  if (!input.more.empty()) {
    const Value more = json(input.more, "more");
    const Dict* dict = dict_in(more);
    if (!dict) wrong("the further names of a template are no object");
    for (const auto& [name, value] : dict->items()) put(*text_in(name), value);
  }
  put("messages", json(input.messages, "messages"));
  put("tools", json(input.tools, "tools"));
  put("documents", json(input.documents, "documents"));
  put("add_generation_prompt", input.add_generation_prompt);
  return names;
}

class ParsedTemplate final : public ChatTemplate {
 public:
  ParsedTemplate(Syntax syntax, std::size_t bytes) : syntax_(std::move(syntax)), bytes_(bytes) {}

  Result<std::string> render(const ChatInput& input) const override {
    int line = 0;
    try {
      Budget budget(bytes_ + input.messages.size() + input.tools.size() + input.documents.size() +
                    input.more.size());
      const Dict names = names_of(input, budget);
      Interpreter interpreter(names, input.now, budget);
      try {
        return interpreter.run(syntax_);
      } catch (const ThrownError&) {
        line = interpreter.line();
        throw;
      }
    } catch (const ThrownError& thrown) {
      const std::string place = line > 0 ? ", line " + std::to_string(line) : "";
      return thrown.error().within("chat template" + place);
    }
  }

 private:
  const Syntax syntax_;
  const std::size_t bytes_;
};

}  // namespace

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::parse(std::string_view source) {
  if (source.size() > kSourceBytes)
    return {ErrorCode::resource_exhausted, "the chat template is over 1 MiB"};
  for (std::size_t at = 0; at < source.size();) {
    const std::size_t length = utf8_length(source.substr(at));
    if (length == 0)
      return {ErrorCode::invalid_argument,
              "the chat template is no UTF-8 at byte " + std::to_string(at)};
    at += length;
  }
  try {
    return std::shared_ptr<const ChatTemplate>(
        std::make_shared<ParsedTemplate>(parse_template(source), source.size()));
  } catch (const ThrownError& thrown) {
    return thrown.error().within("chat template");
  }
}

}  // namespace gpunode::chat
