// The page at / of the HTTP front, to talk with the models of the cluster in a browser: one file, chat_page.html,
// which the build puts into the program. It holds nothing secret and is given to anybody; what it asks for it
// asks as every client does, with the key that is typed into it where keys are wanted. Its policy lets the browser run
// and apply what the file itself has, fetch from this front, and nothing else.
#pragma once

#include <string>
#include <string_view>

#include "runtime/http/server.hpp"

namespace gpunode::inference {

std::string_view chat_page_html();
// The value of Content-Security-Policy for a page with one script and one style, by their SHA-256.
std::string content_policy(std::string_view html);
http::Answer chat_page_answer();

}  // namespace gpunode::inference
