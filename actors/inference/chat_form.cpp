#include "actors/inference/chat_form.hpp"

#include <ctime>
#include <nlohmann/json.hpp>

namespace gpunode::inference {
namespace {

// As clocks on walls of this machine show it.
std::chrono::local_seconds local_time(const Clock& clock) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(clock.wall());
  std::tm local{};
  localtime_r(&seconds, &local);
  return std::chrono::local_seconds(std::chrono::seconds(seconds + local.tm_gmtoff));
}

}  // namespace

ChatForm::ChatForm(const checkpoint::TextForm& text) : special_tokens_(text.special_tokens) {
  if (text.chat_template.empty()) return;
  template_ = chat::ChatTemplate::parse(text.chat_template);
  if (!template_) template_ = template_.error().within("the model's chat template");
}

Result<std::string> ChatForm::text_of(const std::string& chat, const Clock& clock) const {
  if (!template_) return template_.error();
  // In the order of their keys, as a template may show an object.
  const auto parts = nlohmann::ordered_json::parse(chat, nullptr, false);
  if (!parts.is_object() || !parts.contains("messages"))
    return Error{ErrorCode::invalid_argument, "a chat is an object with messages"};
  const std::string messages = parts["messages"].dump();
  const std::string more = parts.contains("more") ? parts["more"].dump() : "";
  return (*template_)
      ->render({.messages = messages,
                .tools = {},
                .documents = {},
                .more = more,
                .special_tokens = special_tokens_,
                .now = local_time(clock)});
}

}  // namespace gpunode::inference
