#include "actors/inference/chat_page.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

namespace gpunode::inference {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ChatPage, NeedsNothingButItself) {
  const std::string html(chat_page_html());
  EXPECT_TRUE(html.starts_with("<!doctype html>"));
  EXPECT_TRUE(html.ends_with("</html>\n"));
  for (const char* foreign :
       {"http://", "https://", "src=", "@import", "url(", "innerHTML", "outerHTML",
        "insertAdjacentHTML", "document.write", "localStorage", "eval(", "style=\""})
    EXPECT_THAT(html, Not(HasSubstr(foreign)));
  EXPECT_FALSE(std::regex_search(html, std::regex("<[^>]* on[a-z]+=")));
}

TEST(ChatPage, LetsTheBrowserDoWhatThePageHasAlone) {
  EXPECT_EQ(content_policy("<style>a</style><script>b</script>"),
            "default-src 'none'; script-src 'sha256-PiPoFgA5WUoziU9lZOGxNIu9egCI1CxKy3PurtWcAJ0='; "
            "style-src 'sha256-ypeBEsobvcr6wjGzmiPcTaeG7/gUfE5yuYB3ha/uSLs='; connect-src 'self'; "
            "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
  const http::Answer answer = chat_page_answer();
  EXPECT_EQ(answer.body, chat_page_html());
  EXPECT_THAT(answer.headers, ::testing::Contains(::testing::Pair(
                                  "Content-Security-Policy", content_policy(chat_page_html()))));
}

}  // namespace
}  // namespace gpunode::inference
