// A chat as the text that a model goes on from, by the model's own template; a model that has none, or one
// that is not known here, still continues texts, and says of a chat why it cannot. Immutable.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "actors/checkpoint/text_form.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/chat/chat_template.hpp"

namespace gpunode::inference {

class ChatForm {
 public:
  ChatForm() = default;
  explicit ChatForm(const checkpoint::TextForm& text);

  // `chat`: a JSON object with "messages" and perhaps "more", an object of names that the template
  // reads; where the answer begins, the text ends. Fails with: unsupported (the model has no template,
  // or one with something that is not known here), invalid_argument (no such object; the template
  // refuses these messages), resource_exhausted.
  Result<std::string> text_of(const std::string& chat, const Clock& clock) const;

 private:
  Result<std::shared_ptr<const chat::ChatTemplate>> template_{
      Error{ErrorCode::unsupported, "the model has no chat template: ask it for a completion"}};
  std::map<std::string, std::string> special_tokens_;
};

}  // namespace gpunode::inference
