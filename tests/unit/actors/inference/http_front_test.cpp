// The front with a model that this test is: who asks what over a socket, and what is answered.
#include "actors/inference/http_front.hpp"

#include <sys/socket.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "tests/unit/actors/inference/front_of_a_test.hpp"

namespace gpunode::inference {
namespace {

using namespace std::chrono_literals;
using gpunode::testing::hear;
using gpunode::testing::say;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

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
  for (const char* name : {"other", "other/small", "small/", "small/small"})
    EXPECT_THAT(ask("GET /v1/models/" + std::string(name) + " HTTP/1.1\r\n"), HasSubstr(" 404 "))
        << name;
  EXPECT_THAT(ask("GET /health HTTP/1.1\r\n"), HasSubstr(" 200 "));
  for (const char* path :
       {"/v2/models/small/generate", "/v2/models//infer", "/v2/models/a/b/infer"})
    EXPECT_THAT(ask("POST " + std::string(path) + " HTTP/1.1\r\n", "{}"), HasSubstr(" 404 "))
        << path;
}

TEST_F(HttpFront, SaysWhatThereIsAndHowItIsAsked) {
  EXPECT_THAT(ask("GET /v3/models HTTP/1.1\r\n"), HasSubstr("/v1/completions"));
  const std::string wrong = ask("GET /v1/completions HTTP/1.1\r\n");
  EXPECT_THAT(wrong, HasSubstr(" 405 "));
  EXPECT_THAT(wrong, HasSubstr("Allow: POST"));
}

TEST_F(HttpFront, RefusesByItselfAsOpenAisClientsReadIt) {
  const std::string answer =
      ask("POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\n",
          std::string((1 << 20) + 1, 'x'));
  EXPECT_THAT(answer, HasSubstr("HTTP/1.1 413 "));
  EXPECT_THAT(answer, HasSubstr(R"({"error":{"code":"invalid_argument")"));
}

TEST_F(HttpFront, RefusesMoreThanMayBeUnderWayAndAnswersTheRest) {
  HttpFrontOptions options;
  options.at_once = 1;
  open(options);
  std::promise<GenerateText> first;
  model_ = [&](GenerateText order) { first.set_value(std::move(order)); };
  const Descriptor socket = dial();
  const std::string body = R"({"model": "small", "prompt": "Once"})";
  say(socket, request(std::string(kPost) + "Connection: close\r\n", body));
  auto future = first.get_future();
  ASSERT_EQ(future.wait_for(20s), std::future_status::ready);
  const std::string refused = complete();
  EXPECT_THAT(refused, HasSubstr("HTTP/1.1 503 "));
  EXPECT_THAT(refused, HasSubstr("Retry-After: 1"));
  EXPECT_THAT(ask("GET /v1/models HTTP/1.1\r\n"), HasSubstr(" 200 "));
  future.get().done(text("at last"));
  EXPECT_THAT(hear(socket), HasSubstr("at last"));
}

TEST_F(HttpFront, AnswersKServesProtocol) {
  EXPECT_THAT(ask("GET /v2 HTTP/1.1\r\n"), HasSubstr("binary_tensor_data"));
  EXPECT_THAT(ask("GET /v2/models/small HTTP/1.1\r\n"), HasSubstr("[-1,2]"));
  EXPECT_THAT(ask("GET /v2/models/small/versions/1/ready HTTP/1.1\r\n"), HasSubstr(" 200 "));
  EXPECT_THAT(ask("POST /v2/repository/index HTTP/1.1\r\n"), HasSubstr(R"("state":"READY")"));
  const std::string body =
      R"({"id": "7", "inputs": [{"name": "features", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]})";
  for (const char* path : {"/v2/models/small/infer", "/v2/models/small/versions/1/infer"})
    EXPECT_THAT(ask("POST " + std::string(path) + " HTTP/1.1\r\n", body),
                HasSubstr(R"({"id":"7","model_name":"small")"));
  EXPECT_THAT(ask("GET /v2/models/small/stats HTTP/1.1\r\n"), HasSubstr(R"("execution_count":2)"));
  const std::string text =
      R"({"inputs": [{"name": "text_input", "datatype": "BYTES", "shape": [1], "data": ["Once"]}]})";
  EXPECT_THAT(ask("POST /v2/models/small/infer HTTP/1.1\r\n", text), HasSubstr(R"(["Once upon"])"));
}

TEST_F(HttpFront, RefusesInKServesForm) {
  for (const auto& [head, status] : {std::pair("GET /v2/models/none", " 404 "),
                                     {"GET /v2/models/none/ready", " 404 "},
                                     {"GET /v2/models/small/versions/x", " 404 "},
                                     {"GET /v2/models/small/infer", " 405 "},
                                     {"POST /v2/models/small/infer", " 400 "}}) {
    const std::string answer = ask(std::string(head) + " HTTP/1.1\r\n");
    EXPECT_THAT(answer, HasSubstr(status));
    EXPECT_THAT(answer, HasSubstr(R"({"error":")"));
  }
  EXPECT_THAT(ask("POST /v2/models/small/infer HTTP/1.1\r\nContent-Type: text/plain\r\n", "{}"),
              HasSubstr(" 415 "));
  EXPECT_THAT(ask("POST /v2/models/small/infer HTTP/1.1\r\n"
                  "Inference-Header-Content-Length: x\r\n",
                  "{}"),
              HasSubstr("Inference-Header-Content-Length is no number"));
}

TEST_F(HttpFront, HealthIsWhatItSays) {
  EXPECT_THAT(ask("GET /v2/health/live HTTP/1.1\r\n"), HasSubstr(" 200 "));
  EXPECT_THAT(ask("GET /v2/health/ready HTTP/1.1\r\n"), HasSubstr(" 200 "));
  live_ = false;
  EXPECT_THAT(ask("GET /v2/health/live HTTP/1.1\r\n"), HasSubstr(" 503 "));
  ready_ = Error{ErrorCode::unavailable, "the model 'small' is being loaded"};
  EXPECT_THAT(
      ask("GET /v2/health/ready HTTP/1.1\r\n"),
      AllOf(HasSubstr(" 503 "), HasSubstr(R"({"error":"the model 'small' is being loaded"})")));
  infer_ = [](const InferOrder& order) {
    const auto* describe = std::get_if<InferDescribe>(&order.request);
    EXPECT_TRUE(describe && describe->probe);
    order.done(Error{ErrorCode::timeout, "no answer"});
  };
  EXPECT_THAT(ask("GET /v2/models/small/ready HTTP/1.1\r\n"),
              AllOf(HasSubstr(" 503 "), HasSubstr(R"("ready":false)"), HasSubstr("no answer")));
  asleep_ = true;
  EXPECT_THAT(ask("GET /v2/models/small/ready HTTP/1.1\r\n"),
              AllOf(HasSubstr(" 200 "), HasSubstr(R"("ready":true)")))
      << "it is not woken";
}

TEST_F(HttpFront, KeepsPagesOfOtherSitesOut) {
  EXPECT_THAT(complete("", "Origin: https://bad.example\r\n"), HasSubstr(" 403 "));
  for (const char* host : {"bad.example:8000", "127.bad.example", "127.0.0.1.bad.example:8000",
                           "127.1", "node-a", "[::1].bad.example", "[::1]bad.example:80", "[::1",
                           "127.0.0.1:bad", "127.0.0.1%.bad", "192.168.0.5", "node.local"})
    EXPECT_THAT(complete("", std::string("Host: ") + host + "\r\n"),
                AllOf(HasSubstr(" 403 "), HasSubstr("by 127.0.0.1")))
        << host;
  EXPECT_THAT(ask("POST /v1/completions HTTP/1.1\r\nContent-Type: text/plain\r\n",
                  R"({"model": "small", "prompt": "a"})"),
              HasSubstr(" 415 "));
  for (const char* host : {"localhost:8000", "127.0.0.1:8000", "[::1]:8000", "127.0.0.1"})
    EXPECT_THAT(complete("", std::string("Host: ") + host + "\r\n"), HasSubstr(" 200 ")) << host;
}

TEST_F(HttpFront, BeyondLoopbackItIsAskedByAddressOrByANameThatNoSiteHas) {
  HttpFrontOptions options;
  options.listen = {"0.0.0.0", 0};
  open(std::move(options));
  const auto to = [this](const std::string& host) {
    return complete("", "Host: " + host + "\r\nOrigin: http://" + host + "\r\n");
  };
  for (const char* host :
       {"127.0.0.1", "localhost", "192.168.0.5:8000", "203.0.113.7", "[fd00::5]:8000", "[::1]",
        "node-a:8000", "node-a.local", "Node-A.LAN", "a.internal", "a.home.arpa:80", "a.localhost"})
    EXPECT_THAT(to(host), HasSubstr(" 200 ")) << host;
  for (const char* host : {"bad.example", "192.168.0.5.bad.example", "127.bad.example",
                           "lan.bad.example", "badlan.example", "node.lan.", "[bad.example]",
                           "[fd00::5]bad", "192.168.0.5%.bad.example", "node-a:bad", ":80"})
    EXPECT_THAT(to(host), AllOf(HasSubstr(" 403 "), HasSubstr("by this node's address"),
                                HasSubstr("gpunode http-key create")))
        << host;
}

TEST_F(HttpFront, WantsNoMoreOfATextWhoseClientIsGone) {
  for (const char* stream : {"", R"(, "stream": true)"}) {
    std::promise<TextStreams::Taker> asked;
    model_ = [&](const GenerateText& order) { asked.set_value(order.on_piece); };
    const Descriptor socket = dial();
    const std::string body = R"({"model": "small", "prompt": "Once")" + std::string(stream) + "}";
    say(socket, request(kPost, body));
    auto future = asked.get_future();
    ASSERT_EQ(future.wait_for(20s), std::future_status::ready);
    const auto take = future.get();
    EXPECT_TRUE(take({"one"}));
    ::shutdown(socket.get(), SHUT_RDWR);
    bool wanted = true;  // until the front has noticed
    for (const Time until = clock_.now() + 20s; wanted && clock_.now() < until;) {
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
  say(socket, request(kPost, body));
  ASSERT_EQ(asked.get_future().wait_for(20s), std::future_status::ready);
  front_->close();
  EXPECT_THAT(hear(socket), Not(HasSubstr(" 200 ")));
}

}  // namespace
}  // namespace gpunode::inference
