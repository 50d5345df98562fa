#include "actors/inference/chat_page.hpp"

#include "actors/inference/chat_page_text.hpp"  // made of chat_page.html by the build
#include "runtime/security/crypto.hpp"

namespace gpunode::inference {
namespace {

// What stands in the first element of this name.
std::string_view inside(std::string_view html, const std::string& name) {
  const std::string begin = "<" + name + ">";
  const std::size_t at = html.find(begin);
  if (at == std::string_view::npos) return {};
  html.remove_prefix(at + begin.size());
  return html.substr(0, html.find("</" + name + ">"));
}

// As a policy writes it: base64 with padding, which 32 bytes have one character of.
std::string source_of(std::string_view text) {
  std::string hash = security::to_base64url(security::sha256(as_bytes(text)));
  for (char& letter : hash) letter = letter == '-' ? '+' : letter == '_' ? '/' : letter;
  return "'sha256-" + hash + "='";
}

}  // namespace

std::string_view chat_page_html() {
  return kChatPage;
}

std::string content_policy(std::string_view html) {
  return "default-src 'none'; script-src " + source_of(inside(html, "script")) + "; style-src " +
         source_of(inside(html, "style")) +
         "; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
         "frame-ancestors 'none'";
}

http::Answer chat_page_answer() {
  static const std::string policy = content_policy(chat_page_html());
  return {.content_type = "text/html; charset=utf-8",
          .body = std::string(chat_page_html()),
          .headers = {{"Content-Security-Policy", policy},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cache-Control", "no-cache"}}};
}

}  // namespace gpunode::inference
