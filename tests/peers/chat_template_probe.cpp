// What a test in another language asks of our chat templates: reads from standard input an object a
// line, {"template", "messages", "tools", "documents", "more", "tokens", "prompt"}, and writes one a
// line: "text", the rendering; or "error" and its "code". It is the 27th of February 2025, 09:05:07.
// usage: chat_template_probe
#include <iostream>
#include <nlohmann/json.hpp>

#include "runtime/chat/chat_template.hpp"

namespace gpunode {
namespace {

using Json = nlohmann::ordered_json;

Json failed(const Error& error) {
  return {{"error", error.detail}, {"code", std::string(to_string(error.code))}};
}

Json answer(const Json& order) {
  const auto made = chat::ChatTemplate::parse(order.at("template").get<std::string>());
  if (!made) return failed(made.error());
  const auto json = [&](const char* name) {
    return order.contains(name) ? order[name].dump() : std::string();
  };
  const std::string messages = json("messages"), tools = json("tools");
  const std::string documents = json("documents"), more = json("more");
  using namespace std::chrono;
  const auto text = (*made)->render(
      {.messages = messages,
       .tools = tools,
       .documents = documents,
       .more = more,
       .special_tokens = order.value("tokens", std::map<std::string, std::string>()),
       .add_generation_prompt = order.value("prompt", false),
       .now = local_days(2025y / February / 27) + 9h + 5min + 7s});
  if (!text) return failed(text.error());
  return {{"text", *text}};
}

}  // namespace
}  // namespace gpunode

int main() {
  using gpunode::Json;
  for (std::string line; std::getline(std::cin, line);)
    std::cout
        << gpunode::answer(Json::parse(line)).dump(-1, ' ', false, Json::error_handler_t::replace)
        << '\n';
  return 0;
}
