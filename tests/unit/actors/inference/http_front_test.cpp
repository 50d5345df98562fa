// The front with a model that this test is: who asks what over a socket, and what is answered.
#include "actors/inference/http_front.hpp"

#include <sys/socket.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "tests/support/raw_client.hpp"

namespace gpunode::inference {
namespace {

using namespace std::chrono_literals;
using gpunode::testing::hear;
using gpunode::testing::say;
using ::testing::HasSubstr;
using ::testing::Not;

class HttpFront : public ::testing::Test {
 protected:
  HttpFront() {
    HttpFrontOptions options;
    options.listen = {"127.0.0.1", 0};
    options.generate = [this](GenerateText order) { model_(std::move(order)); };
    options.models = [] { return std::vector<std::string>{"small"}; };
    options.clock = &clock_;
    auto front = open_http_front(std::move(options));
    EXPECT_TRUE(front) << front.error().message();
    front_ = *std::move(front);
  }
  Descriptor dial() { return gpunode::testing::dial(front_->place().port); }
  std::string ask(const std::string& head, const std::string& body = "") {
    const Descriptor socket = dial();
    say(socket, head + "Connection: close\r\nContent-Length: " + std::to_string(body.size()) +
                    "\r\n\r\n" + body);
    return hear(socket);
  }
  static constexpr const char* kPost =
      "POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\n";
  std::string complete(const std::string& fields = "", const std::string& head = "") {
    return ask(kPost + head, R"({"model": "small", "prompt": "Once")" + fields + "}");
  }
  static GenerateAnswer text(const std::string& text) {
    GenerateAnswer answer;
    answer.text = text;
    answer.tokens = 2;
    answer.finish = "length";
    return answer;
  }

  SystemClock clock_;
  std::function<void(GenerateText)> model_ = [](const GenerateText& order) {
    order.done(text(order.request.prompt + " upon"));
  };
  std::unique_ptr<http::Server> front_;
};

TEST_F(HttpFront, AnswersACompletion) {
  const std::string answer = complete();
  EXPECT_THAT(answer, HasSubstr("HTTP/1.1 200 "));
  EXPECT_THAT(answer, HasSubstr("Content-Type: application/json"));
  EXPECT_THAT(answer, HasSubstr(R"("text":"Once upon")"));
}

TEST_F(HttpFront, AnswersAChat) {
  model_ = [](const GenerateText& order) {
    order.on_piece({"so it is"});
    order.done(text("so it is" + std::string(order.request.chat.empty() ? "" : "!")));
  };
  const std::string body =
      R"({"model": "small", "messages": [{"role": "user", "content": "Is it?"}])";
  const std::string head =
      "POST /v1/chat/completions HTTP/1.1\r\nContent-Type: application/json\r\n";
  const std::string whole = ask(head, body + "}");
  EXPECT_THAT(whole, HasSubstr(R"("object":"chat.completion")"));
  EXPECT_THAT(whole, HasSubstr(R"("content":"so it is!")"));
  EXPECT_THAT(whole, HasSubstr(R"("id":"chatcmpl-)"));
  const std::string pieces = ask(head, body + R"(, "stream": true})");
  EXPECT_THAT(pieces, HasSubstr(R"("delta":{"content":"","role":"assistant"})"));
  EXPECT_THAT(pieces, HasSubstr(R"("delta":{"content":"so it is"})"));
  EXPECT_THAT(pieces, HasSubstr("data: [DONE]"));
}

TEST_F(HttpFront, StreamsWholeCharactersAndSaysThatItIsDone) {
  model_ = [](const GenerateText& order) {
    for (const char* piece : {"one ", "h\xc3", "\xa9", " end\xf0\x9f"}) order.on_piece({piece});
    order.done(text("one h\xc3\xa9 end\xf0\x9f"));
  };
  const std::string answer = complete(R"(, "stream": true)");
  EXPECT_THAT(answer, HasSubstr("text/event-stream"));
  EXPECT_THAT(answer, HasSubstr(R"("text":"one ")"));
  EXPECT_THAT(answer, HasSubstr(R"("text":"h")"));
  EXPECT_THAT(answer, HasSubstr("\"text\":\"\xc3\xa9\""));
  EXPECT_THAT(answer, HasSubstr("\"text\":\"\ufffd\""));
  EXPECT_THAT(answer, HasSubstr(R"("finish_reason":"length")"));
  EXPECT_THAT(answer, HasSubstr("data: [DONE]"));
}

TEST_F(HttpFront, StreamsWhatItsTokensAre) {
  model_ = [](const GenerateText& order) {
    EXPECT_EQ(order.request.likely, 1u);
    const std::vector<TokenReport> reports{{.token = {"a", -0.5f}, .likely = {}}};
    order.on_piece({"a", reports});
    order.on_piece({"", reports});  // of half a character
    order.done(text("a"));
  };
  const std::string answer = complete(R"(, "stream": true, "logprobs": 1)");
  const std::string told = R"("token_logprobs":[-0.5])";
  const auto first = answer.find(told);
  ASSERT_NE(first, std::string::npos);
  EXPECT_NE(answer.find(told, first + 1), std::string::npos);
}

TEST_F(HttpFront, TellsErrorsWithTheirStatus) {
  model_ = [](const GenerateText& order) { order.done(Error{ErrorCode::not_found, "no such"}); };
  for (const char* stream : {"", R"(, "stream": true)"}) {
    EXPECT_THAT(complete(stream), HasSubstr("HTTP/1.1 404 "));
    EXPECT_THAT(complete(stream), HasSubstr("no such"));
  }
  model_ = [](const GenerateText& order) {
    order.done(Error{ErrorCode::resource_exhausted, "full"});
  };
  EXPECT_THAT(complete(), HasSubstr("HTTP/1.1 429 "));
  EXPECT_THAT(complete(), HasSubstr("Retry-After: 1"));
  EXPECT_THAT(complete(R"(, "n": 0)"), HasSubstr("HTTP/1.1 400 "));
}

TEST_F(HttpFront, TellsAnErrorInTheMiddleOfAStream) {
  model_ = [](const GenerateText& order) {
    order.on_piece({"one"});
    order.done(Error{ErrorCode::device_lost, "gone"});
  };
  const std::string answer = complete(R"(, "stream": true)");
  EXPECT_THAT(answer, HasSubstr(R"("text":"one")"));
  EXPECT_THAT(answer, HasSubstr(R"({"error":{"code":"device_lost")"));
  EXPECT_THAT(answer, Not(HasSubstr("[DONE]")));
}

TEST_F(HttpFront, ListsModels) {
  EXPECT_THAT(ask("GET /v1/models HTTP/1.1\r\n"), HasSubstr(R"("id":"small")"));
  EXPECT_THAT(ask("GET /v1/models/small HTTP/1.1\r\n"), HasSubstr(R"("id":"small")"));
  EXPECT_THAT(ask("GET /v1/models/other HTTP/1.1\r\n"), HasSubstr(" 404 "));
  EXPECT_THAT(ask("GET /health HTTP/1.1\r\n"), HasSubstr(" 200 "));
}

TEST_F(HttpFront, SaysWhatThereIsAndHowItIsAsked) {
  EXPECT_THAT(ask("GET /v2/models HTTP/1.1\r\n"), HasSubstr("/v1/completions"));
  const std::string wrong = ask("GET /v1/completions HTTP/1.1\r\n");
  EXPECT_THAT(wrong, HasSubstr(" 405 "));
  EXPECT_THAT(wrong, HasSubstr("Allow: POST"));
}

TEST_F(HttpFront, KeepsPagesOfOtherSitesOut) {
  EXPECT_THAT(complete("", "Origin: https://bad.example\r\n"), HasSubstr(" 403 "));
  EXPECT_THAT(complete("", "Host: bad.example:8000\r\n"), HasSubstr(" 403 "));
  EXPECT_THAT(ask("POST /v1/completions HTTP/1.1\r\nContent-Type: text/plain\r\n",
                  R"({"model": "small", "prompt": "a"})"),
              HasSubstr(" 415 "));
  for (const char* host : {"localhost:8000", "127.0.0.1:8000", "[::1]:8000", "127.0.0.1"})
    EXPECT_THAT(complete("", std::string("Host: ") + host + "\r\n"), HasSubstr(" 200 ")) << host;
}

TEST_F(HttpFront, WantsNoMoreOfATextWhoseClientIsGone) {
  for (const char* stream : {"", R"(, "stream": true)"}) {
    std::promise<TextStreams::Taker> asked;
    model_ = [&](const GenerateText& order) { asked.set_value(order.on_piece); };
    const Descriptor socket = dial();
    const std::string body = R"({"model": "small", "prompt": "Once")" + std::string(stream) + "}";
    say(socket, kPost + ("Content-Length: " + std::to_string(body.size())) + "\r\n\r\n" + body);
    auto future = asked.get_future();
    ASSERT_EQ(future.wait_for(20s), std::future_status::ready);
    const auto take = future.get();
    EXPECT_TRUE(take({"one"}));
    ::shutdown(socket.get(), SHUT_RDWR);
    bool wanted = true;  // until the front has noticed
    for (int look = 0; wanted && look < 2000; ++look) {
      char none;
      timeval pause{0, 10'000};
      setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &pause, sizeof pause);
      (void)::recv(socket.get(), &none, 0, 0);
      wanted = take({"more"});
      std::this_thread::yield();
    }
    EXPECT_FALSE(wanted);
  }
}

TEST_F(HttpFront, ClosesThoughAModelDoesNotAnswer) {
  std::promise<void> asked;
  model_ = [&](const GenerateText&) { asked.set_value(); };
  const Descriptor socket = dial();
  const std::string body = R"({"model": "small", "prompt": "Once"})";
  say(socket, kPost + ("Content-Length: " + std::to_string(body.size())) + "\r\n\r\n" + body);
  ASSERT_EQ(asked.get_future().wait_for(20s), std::future_status::ready);
  front_->close();
  EXPECT_THAT(hear(socket), Not(HasSubstr(" 200 ")));
}

}  // namespace
}  // namespace gpunode::inference
