// Who is let in at the front: keys, their rights and quotas, pages and their origins.
#include "actors/inference/http_gate.hpp"

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

TEST_F(HttpFront, GivesAPageThatMayAskItAndNoOther) {
  for (const char* path : {"/", "/chat"})
    EXPECT_THAT(ask("GET " + std::string(path) + " HTTP/1.1\r\n"),
                AllOf(HasSubstr(" 200 "), HasSubstr("Content-Security-Policy: default-src 'none'"),
                      HasSubstr("<!doctype html>")));
  const std::string host = "127.0.0.1:" + std::to_string(front_->place().port);
  const auto from = [&](const std::string& origin, const std::string& to) {
    return complete("", "Host: " + to + "\r\nOrigin: " + origin + "\r\n");
  };
  EXPECT_THAT(from("http://" + host, host), HasSubstr(" 200 "));
  EXPECT_THAT(from("https://" + host, host), HasSubstr(" 403 "));
  EXPECT_THAT(from("http://127.0.0.1:1", host), HasSubstr(" 403 ")) << "another program's page";
  EXPECT_THAT(from("http://bad.example", "bad.example"), HasSubstr(" 403 "))
      << "a name that leads here";
  EXPECT_THAT(from("null", host), HasSubstr(" 403 "));
}

// With keys, and pages that may ask.
class GuardedFront : public HttpFront {
 protected:
  GuardedFront() {
    ring_ = std::make_shared<KeyRing>(files_, folder_.path() / KeyRing::kFile, clock_, true);
  }
  std::string key(ApiKey made) {
    made.name = "key-" + std::to_string(keys_.all().size());
    const std::string secret = *keys_.add(std::move(made));
    const std::string written = keys_.text();
    EXPECT_TRUE(files_.write_atomic(folder_.path() / KeyRing::kFile, {as_bytes(written)}));
    HttpFrontOptions options;
    options.keys = ring_ =
        std::make_shared<KeyRing>(files_, folder_.path() / KeyRing::kFile, clock_, true);
    options.origins = {"https://app.example"};
    options.refused = [this](const std::string& who, std::string_view what) {
      std::lock_guard lock(refused_mutex_);
      refused_.push_back(who + ": " + std::string(what));
    };
    open(options);
    return "Authorization: Bearer " + secret + "\r\n";
  }

  gpunode::testing::TemporaryFolder folder_;
  storage::PosixFileSystem files_;
  ApiKeys keys_;
  std::shared_ptr<KeyRing> ring_;
  std::mutex refused_mutex_;
  std::vector<std::string> refused_;
};

TEST_F(GuardedFront, TellsOfWhomItRefusedWithoutWhatStrangersWrite) {
  ApiKey few;
  few.may = kMayInfer;
  few.requests_per_minute = 1;
  const std::string limited = key(few);
  ask("GET /v1/models HTTP/1.1\r\nAuthorization: Bearer gpnk-0-secret\r\n");
  ask("GET /nowhere-secret HTTP/1.1\r\n");
  ask("GET /v1/models HTTP/1.1\r\n" + limited);
  EXPECT_THAT(complete("", limited), HasSubstr(" 200 "));
  EXPECT_THAT(complete("", limited), HasSubstr(" 429 "));
  EXPECT_THAT(ask("GET / HTTP/1.1\r\n"), HasSubstr(" 200 ")) << "the page holds no secret";
  EXPECT_THAT(complete("", "Content-Type: application/json\r\nOrigin: https://app.example\r\n"),
              HasSubstr(" 401 "));
  std::lock_guard lock(refused_mutex_);
  EXPECT_THAT(refused_, ::testing::ElementsAre(": no good key for /v1/models",
                                               ": no good key for a path that is not there",
                                               "key-0: no right to /v1/models",
                                               "key-0: a request over its quota",
                                               ": no good key for /v1/completions"));
}

TEST_F(GuardedFront, AnswersNobodyWithoutAKey) {
  const std::string good = key({});
  for (const std::string& head :
       {std::string(), std::string("Authorization: Bearer gpnk-0-0\r\n"),
        std::string("Authorization: Basic YTpi\r\n"), good.substr(0, good.size() - 3) + "\r\n"}) {
    const std::string refused = complete("", head);
    EXPECT_THAT(refused, HasSubstr("HTTP/1.1 401 "));
    EXPECT_THAT(refused, HasSubstr("WWW-Authenticate: Bearer"));
    EXPECT_THAT(refused, HasSubstr(R"("code":"invalid_api_key")"));
    EXPECT_THAT(refused, Not(HasSubstr("gpnk-0-0")));
  }
  EXPECT_THAT(ask("GET /v1/models HTTP/1.1\r\n"), HasSubstr(" 401 "));
  EXPECT_THAT(ask("GET /nowhere HTTP/1.1\r\n"), HasSubstr(" 401 "));
  EXPECT_THAT(ask("GET /health HTTP/1.1\r\n"), HasSubstr(" 200 "));
  EXPECT_THAT(complete("", good), HasSubstr(" 200 "));
  EXPECT_THAT(complete("", good + "Host: anywhere.example\r\n"), HasSubstr(" 200 "));
}

TEST_F(GuardedFront, AnswersByTheRightsAndModelsOfAKey) {
  const std::string other = key({.id = {}, .name = {}, .models = {"other"}});
  EXPECT_THAT(complete("", other), HasSubstr("HTTP/1.1 403 "));
  EXPECT_THAT(ask("GET /v1/models HTTP/1.1\r\n" + other), Not(HasSubstr("small")));
  EXPECT_THAT(ask("GET /v1/models/small HTTP/1.1\r\n" + other), HasSubstr(" 404 "));
  const std::string lists = key({.id = {}, .name = {}, .may = kMayList});
  EXPECT_THAT(complete("", lists), HasSubstr("lacks the right infer"));
  EXPECT_THAT(ask("GET /v1/models HTTP/1.1\r\n" + lists), HasSubstr("small"));
  EXPECT_THAT(ask("GET /metrics HTTP/1.1\r\n" + lists), HasSubstr(" 403 "));
  const std::string watches = key({.id = {}, .name = {}, .may = kMayMetrics});
  EXPECT_THAT(ask("GET /metrics HTTP/1.1\r\n" + watches), HasSubstr("figures 1"));
  EXPECT_THAT(ask("GET /v1/models HTTP/1.1\r\n" + watches), HasSubstr(" 403 "));
}

TEST_F(GuardedFront, KServesProtocolWantsKeysTooButForItsHealth) {
  const std::string other = key({.id = {}, .name = {}, .models = {"other"}});
  EXPECT_THAT(ask("GET /v2/health/live HTTP/1.1\r\n"), HasSubstr(" 200 "));
  for (const char* path : {"/v2", "/v2/models/small", "/v2/models/small/ready"}) {
    const std::string refused = ask("GET " + std::string(path) + " HTTP/1.1\r\n");
    EXPECT_THAT(refused, HasSubstr(" 401 "));
    EXPECT_THAT(refused, HasSubstr(R"({"error":")"));
  }
  EXPECT_THAT(ask("GET /v2/models/small HTTP/1.1\r\n" + other), HasSubstr(" 404 "));
  EXPECT_THAT(ask("POST /v2/repository/index HTTP/1.1\r\n" + other), Not(HasSubstr("small")));
}

TEST_F(GuardedFront, SaysWhenAKeyMayAskAgain) {
  ApiKey few;
  few.requests_per_minute = 2;
  const std::string limited = key(few);
  EXPECT_THAT(complete("", limited), HasSubstr(" 200 "));
  EXPECT_THAT(complete("", limited), HasSubstr(" 200 "));
  const std::string refused = complete("", limited);
  EXPECT_THAT(refused, HasSubstr("HTTP/1.1 429 "));
  EXPECT_THAT(refused, ::testing::AnyOf(HasSubstr("Retry-After: 30"), HasSubstr("Retry-After: 29"),
                                        HasSubstr("Retry-After: 28")));
}

TEST_F(GuardedFront, CountsTheTokensThatWereUsed) {
  ApiKey few;
  few.tokens_per_minute = 100;
  const std::string limited = key(few);  // each text takes two
  for (int i = 0; i < 10; ++i)
    EXPECT_THAT(complete(R"(, "max_tokens": 60)", limited), HasSubstr(" 200 ")) << i;
  model_ = [](const GenerateText& order) {
    GenerateAnswer answer = text("long");
    answer.prompt_tokens = 90;
    order.done(answer);
  };
  EXPECT_THAT(complete(R"(, "max_tokens": 60)", limited), HasSubstr(" 200 "));
  EXPECT_THAT(complete(R"(, "max_tokens": 60)", limited), HasSubstr(" 429 "));
}

TEST_F(GuardedFront, ATextThatFailsLateIsPaidForAndOneThatNobodyBeganIsNot) {
  ApiKey few;
  few.tokens_per_minute = 100;
  const std::string limited = key(few);
  model_ = [](const GenerateText& order) { order.done(Error{ErrorCode::unavailable, "full"}); };
  for (int i = 0; i < 5; ++i)
    EXPECT_THAT(complete(R"(, "max_tokens": 60)", limited), HasSubstr(" 503 "));
  model_ = [](const GenerateText& order) {
    order.on_piece({"one "});
    order.done(Error{ErrorCode::invalid_argument, "too many ways at once"});
  };
  const std::string asked = R"(, "max_tokens": 60, "stream": true)";
  EXPECT_THAT(complete(asked, limited), HasSubstr("too many ways"));
  EXPECT_THAT(complete(asked, limited), HasSubstr(" 429 "));
}

TEST_F(GuardedFront, AKeysTextsAreItsOwnAndGoFirstByARightOfIt) {
  std::vector<std::string> clients;
  model_ = [&](const GenerateText& order) {
    clients.push_back(order.request.client);
    order.done(text("a"));
  };
  const std::string one = key({}),
                    other = key({.id = {}, .name = {}, .may = kMayInfer | kMayGoFirst});
  EXPECT_THAT(complete("", one), HasSubstr(" 200 "));
  EXPECT_THAT(complete("", other), HasSubstr(" 200 "));
  ASSERT_EQ(clients.size(), 2u);
  EXPECT_EQ(clients[0], keys_.all()[0].id);
  EXPECT_NE(clients[0], clients[1]);
  EXPECT_THAT(complete(R"(, "priority": 1)", one),
              AllOf(HasSubstr(" 403 "), HasSubstr("lacks the right priority")));
  EXPECT_THAT(complete(R"(, "priority": 1)", other), HasSubstr(" 200 "));
}

// A model that has begun, and goes on until it is told that nobody wants more.
class RevokedFront : public GuardedFront {
 protected:
  // What is heard of a request whose key is revoked while a model works on it.
  std::string hear_of(const std::string& head, const std::string& body) {
    const std::string good = key({});
    std::promise<void> asked;
    model_ = [&](GenerateText order) {
      if (streams_) order.on_piece({"one"});
      text_ = std::move(order);
      asked.set_value();
    };
    infer_ = [&](const InferOrder& order) {
      rows_ = order;
      asked.set_value();
    };
    const Descriptor socket = dial();
    say(socket, request(head + good + "Connection: close\r\n", body));
    EXPECT_EQ(asked.get_future().wait_for(20s), std::future_status::ready);
    EXPECT_TRUE(files_.remove(folder_.path() / KeyRing::kFile));
    return hear(socket);  // until it is over
  }

  bool streams_ = false;
  GenerateText text_;
  InferOrder rows_;
};

TEST_F(RevokedFront, AStreamIsCutAndSaysWhy) {
  streams_ = true;
  const std::string told = hear_of(kPost, R"({"model": "small", "prompt": "a", "stream": true})");
  EXPECT_THAT(told, HasSubstr(R"("text":"one")"));
  EXPECT_THAT(told, HasSubstr(R"("code":"invalid_api_key")"));
  EXPECT_THAT(told, Not(HasSubstr("[DONE]")));
  EXPECT_FALSE(text_.on_piece({"more"}));
}

TEST_F(RevokedFront, WhatNothingWasToldOfYetIsRefusedForItsKey) {
  const std::string json = " HTTP/1.1\r\nContent-Type: application/json\r\n";
  const std::pair<const char*, const char*> requests[] = {
      {"/v1/completions", R"({"model": "small", "prompt": "a"})"},
      {"/v1/completions", R"({"model": "small", "prompt": "a", "stream": true})"},
      {"/v1/embeddings", R"({"model": "small", "input": "a"})"},
      {"/v2/models/small/infer",
       R"({"inputs": [{"name": "features", "datatype": "FP32", "shape": [1], "data": [1]}]})"},
      {"/v2/models/small/infer",
       R"({"inputs": [{"name": "text_input", "datatype": "BYTES", "shape": [1], "data": ["a"]}]})"}};
  for (const auto& [path, body] : requests)
    EXPECT_THAT(hear_of(std::string("POST ") + path + json, body),
                AllOf(HasSubstr("HTTP/1.1 401 "), HasSubstr("was revoked")))
        << path << body;
}

TEST_F(GuardedFront, PagesMayAskThatAreNamed) {
  const std::string good = key({});
  const std::string page = "Origin: https://app.example\r\n";
  const std::string asks =
      "Access-Control-Request-Method: POST\r\n"
      "Access-Control-Request-Headers: authorization,content-type\r\n";
  const std::string told = ask("OPTIONS /v1/completions HTTP/1.1\r\n" + page + asks);
  EXPECT_THAT(told, HasSubstr("HTTP/1.1 204 "));
  EXPECT_THAT(told, HasSubstr("Access-Control-Allow-Origin: https://app.example\r\n"));
  EXPECT_THAT(told, HasSubstr("Access-Control-Allow-Headers: authorization,content-type"));
  const std::string answer = complete("", page + good);
  EXPECT_THAT(answer, HasSubstr(" 200 "));
  EXPECT_THAT(answer, HasSubstr("Access-Control-Allow-Origin: https://app.example\r\n"));
  const std::string unknown = "Origin: https://bad.example\r\n";
  EXPECT_THAT(complete("", unknown + good), HasSubstr(" 403 "));
  const std::string refused = ask("OPTIONS /v1/completions HTTP/1.1\r\n" + unknown + asks);
  EXPECT_THAT(refused, HasSubstr(" 403 "));
  EXPECT_THAT(refused, Not(HasSubstr("Access-Control-Allow-Origin")));
}

TEST_F(GuardedFront, OriginsThatAreNoneAreRefused) {
  HttpFrontOptions options;
  options.listen = {"127.0.0.1", 0};
  options.clock = &clock_;
  for (const char* origin : {"*", "app.example", "https://app.example/path", "https://", "null"}) {
    options.origins = {origin};
    EXPECT_FALSE(open_http_front(options)) << origin;
  }
  options.keys = ring_;
  options.origins = {"*"};
  EXPECT_TRUE(open_http_front(options));
}

}  // namespace
}  // namespace gpunode::inference
