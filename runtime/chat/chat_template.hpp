// The messages of a chat as the one text that a model goes on from, as its own template says: Jinja,
// as models of Hugging Face have it in tokenizer_config.json or chat_template.jinja, with the meaning
// that transformers gives it. What is not known here is refused by name, never rendered otherwise.
// Immutable: any thread. A rendering takes some microseconds a message, and is bounded whatever the
// template does: in steps, in memory (8 MiB and 64 times what it is given), in depth.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/result.hpp"

namespace gpunode::chat {

// What a template reads. JSON as a request has it; an empty text is none.
struct ChatInput {
  std::string_view messages;   // list of objects, most with "role" and "content"
  std::string_view tools;      // list of what the model may call
  std::string_view documents;  // list of what it may quote
  std::string_view more;       // object: further names, as "enable_thinking"
  std::map<std::string, std::string> special_tokens;  // "bos_token", "eos_token" ...
  bool add_generation_prompt = true;                  // ends where the model's answer begins
  std::chrono::local_seconds now;                     // for templates that tell the date
};

class ChatTemplate {
 public:
  // Fails with: invalid_argument (no template), unsupported (a part that is not known here),
  // resource_exhausted (over 1 MiB, or too deep); each names the line.
  static Result<std::shared_ptr<const ChatTemplate>> parse(std::string_view source);
  virtual ~ChatTemplate() = default;

  // Fails with: invalid_argument (no JSON; the template refuses the messages, in its words, or does
  // what makes no sense), unsupported, resource_exhausted.
  virtual Result<std::string> render(const ChatInput& input) const = 0;
};

}  // namespace gpunode::chat
