// The front with a model that this test is: who asks what over a socket, and what is answered.
#include "actors/inference/http_front.hpp"

#include <sys/socket.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "runtime/storage/posix_file_system.hpp"
#include "tests/support/raw_client.hpp"
#include "tests/support/temporary_folder.hpp"

namespace gpunode::inference {
namespace {

using namespace std::chrono_literals;
using gpunode::testing::hear;
using gpunode::testing::say;
using ::testing::HasSubstr;
using ::testing::Not;

class HttpFront : public ::testing::Test {
 protected:
  HttpFront() { open({}); }
  void open(HttpFrontOptions options) {
    front_.reset();
    options.listen = {"127.0.0.1", 0};
    options.generate = [this](GenerateText order) { model_(std::move(order)); };
    options.infer = [this](const InferOrder& order) { infer_(order); };
    options.is_live = [this] { return live_; };
    options.models = [] { return std::vector<std::string>{"small"}; };
    options.clock = &clock_;
    options.metrics = [] { return "figures 1\n"; };
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
  // A model of rows that knows one class.
  std::function<void(const InferOrder&)> infer_ = [](const InferOrder& order) {
    if (std::holds_alternative<InferDescribe>(order.request))
      return order.done(InferMessage(InferDescription{
          "gpunode_classifier", {{"features", TensorKind::fp32, {-1, 2}}}, {}, "", 0}));
    order.done(
        InferMessage(InferAnswer{{{"class", TensorKind::int64, {1}, Bytes(8)}}, "digest", 1, 0.5}));
  };
  bool live_ = true;
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
  say(socket, kPost + ("Connection: close\r\nContent-Length: " + std::to_string(body.size())) +
                  "\r\n\r\n" + body);
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
                                     {"GET /v2/models/small/versions/2", " 404 "},
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
  infer_ = [](const InferOrder& order) { order.done(Error{ErrorCode::timeout, "no answer"}); };
  EXPECT_THAT(ask("GET /v2/models/small/ready HTTP/1.1\r\n"), HasSubstr(" 503 "));
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
    open(options);
    return "Authorization: Bearer " + secret + "\r\n";
  }

  gpunode::testing::TemporaryFolder folder_;
  storage::PosixFileSystem files_;
  ApiKeys keys_;
  std::shared_ptr<KeyRing> ring_;
};

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

TEST_F(GuardedFront, CutsWhatIsUnderWayForAKeyThatIsRevoked) {
  const std::string good = key({});
  std::promise<void> asked;
  TextStreams::Taker take;
  model_ = [&](const GenerateText& order) {
    take = order.on_piece;
    take({"one"});
    asked.set_value();
  };
  const Descriptor socket = dial();
  const std::string body = R"({"model": "small", "prompt": "Once", "stream": true})";
  say(socket, kPost + good + "Connection: close\r\nContent-Length: " + std::to_string(body.size()) +
                  "\r\n\r\n" + body);
  ASSERT_EQ(asked.get_future().wait_for(20s), std::future_status::ready);
  ASSERT_TRUE(files_.remove(folder_.path() / KeyRing::kFile));
  hear(socket);  // returns once it is over
  EXPECT_FALSE(take({"more"}));
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
  say(socket, kPost + ("Content-Length: " + std::to_string(body.size())) + "\r\n\r\n" + body);
  ASSERT_EQ(asked.get_future().wait_for(20s), std::future_status::ready);
  front_->close();
  EXPECT_THAT(hear(socket), Not(HasSubstr(" 200 ")));
}

}  // namespace
}  // namespace gpunode::inference
