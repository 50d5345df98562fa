#include "runtime/http/server.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <future>
#include <stdexcept>

#include "tests/support/raw_client.hpp"

namespace gpunode::http {
namespace {

using namespace std::chrono_literals;
using gpunode::testing::hear;
using gpunode::testing::say;

class HttpServer : public ::testing::Test {
 protected:
  void serve(ServerOptions options = {}) {
    options.listen = {"127.0.0.1", 0};
    options.idle = Duration::zero();
    auto server = Server::open(options, [](const Request& request) -> Answer {
      if (request.path != "/figures") return {404, "text/plain", "nothing here\n"};
      if (request.method != "GET") return {405, "text/plain", "only GET\n", {{"Allow", "GET"}}};
      return {200, "text/plain; version=0.0.4", "one 1\n"};
    });
    ASSERT_TRUE(server) << server.error().message();
    server_ = *std::move(server);
  }
  Descriptor dial() { return gpunode::testing::dial(server_->place().port); }
  std::string ask(const std::string& request) {
    const Descriptor socket = dial();
    say(socket, request);
    ::shutdown(socket.get(), SHUT_WR);
    return hear(socket);
  }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  std::unique_ptr<Server> server_;
};

TEST_F(HttpServer, AnswersWithStatusTypeAndBody) {
  serve();
  const std::string answer = ask("GET /figures?all=1 HTTP/1.1\r\nHost: here\r\n\r\n");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
  EXPECT_TRUE(has(answer, "Content-Type: text/plain; version=0.0.4\r\n")) << answer;
  EXPECT_TRUE(has(answer, "Content-Length: 6\r\n")) << answer;
  EXPECT_TRUE(has(answer, "Connection: close\r\n")) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\none 1\n")) << answer;
  EXPECT_TRUE(ask("GET /other HTTP/1.1\r\nHost: h\r\n\r\n").starts_with("HTTP/1.1 404 "));
}

TEST_F(HttpServer, OtherMethodsAreToldWhichThereAreAlsoWithABodyThatIsNotRead) {
  serve();
  const std::string answer = ask(
      "POST /figures HTTP/1.1\r\nHost: h\r\nContent-Length: 8000\r\n\r\n" + std::string(8000, 'x'));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 405 ")) << answer;
  EXPECT_TRUE(has(answer, "Allow: GET\r\n")) << answer;
}

TEST_F(HttpServer, WhatIsNoRequestOrTooLongIsRefused) {
  serve();
  EXPECT_FALSE(has(ask("\x16\x03\x01 nonsense\r\n\r\n"), " 200 "));
  std::string head = "GET /figures HTTP/1.1\r\nHost: h\r\n";
  while (head.size() < (20 << 10)) head += "X-Filler: 0123456789012345678901234567890123456789\r\n";
  EXPECT_FALSE(has(ask(head + "\r\n"), " 200 "));
}

TEST_F(HttpServer, SlowClientsAreCutOffAndToldSo) {
  serve({.deadline = 300ms});
  const Descriptor silent = dial();
  say(silent, "GET /fig");
  EXPECT_TRUE(hear(silent).starts_with("HTTP/1.1 408 "));
}

TEST_F(HttpServer, SlowClientsTakeNoThread) {
  serve({.threads = 1, .deadline = 1h});
  std::vector<Descriptor> slow;
  for (const char* part :
       {"", "GET /fig", "POST /figures HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab",
        "POST /figures HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab"}) {
    slow.push_back(dial());
    say(slow.back(), part);
  }
  EXPECT_TRUE(has(ask("GET /figures HTTP/1.1\r\nHost: h\r\n\r\n"), " 200 "));
}

TEST_F(HttpServer, AHeadThatIsTooLongIsRefusedWithItsStatus) {
  serve({.head_bytes = 1000});
  const Descriptor socket = dial();
  say(socket, "GET /figures HTTP/1.1\r\nHost: h\r\nX: " + std::string(1100, 'x'));
  EXPECT_TRUE(hear(socket).starts_with("HTTP/1.1 431 "));
}

TEST_F(HttpServer, MoreThanMayBeUnderWayIsRefused) {
  serve({.body_bytes = 1 << 20, .bytes_under_way = 100'000});
  const Descriptor first = dial(), second = dial();
  const std::string head = "POST /figures HTTP/1.1\r\nHost: h\r\nContent-Length: 200000\r\n\r\n";
  say(first, head + std::string(60'000, 'x'));
  say(second, head + std::string(90'000, 'x'));
  pollfd both[] = {{first.get(), POLLIN, 0}, {second.get(), POLLIN, 0}};
  ASSERT_EQ(::poll(both, 2, 20'000), 1) << "one of both";
  EXPECT_TRUE(hear(both[0].revents ? first : second).starts_with("HTTP/1.1 503 "));
}

TEST_F(HttpServer, OneAddressGetsNoMoreConnectionsThanItMay) {
  serve({.connections = 10, .connections_of_address = 2, .deadline = 1h});
  std::vector<Descriptor> silent;
  for (int i = 0; i < 3; ++i) silent.push_back(dial());
  pollfd first{silent.front().get(), POLLIN, 0};
  EXPECT_EQ(::poll(&first, 1, 20'000), 1);
  EXPECT_EQ(hear(silent.front()), "") << "the one that waited for longest";
}

TEST_F(HttpServer, MoreConnectionsThanThereMayBeAreClosed) {
  serve({.threads = 1, .connections = 2, .deadline = 10s});
  std::vector<Descriptor> silent;
  for (int i = 0; i < 4; ++i) silent.push_back(dial());
  std::vector<pollfd> all;
  for (const Descriptor& one : silent) all.push_back({one.get(), POLLIN, 0});
  EXPECT_GE(::poll(all.data(), all.size(), 5000), 1) << "one of those at the end";
}

TEST_F(HttpServer, ClosesThoughAClientIsSilent) {
  serve({.deadline = 1h});
  const Descriptor silent = dial();
  server_->close();
  EXPECT_EQ(hear(silent), "");
}

TEST_F(HttpServer, APortThatIsTakenIsSaidWithARemedy) {
  serve();
  const auto second =
      Server::open({.listen = server_->place()}, [](const Request&) { return Answer{}; });
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::already_exists);
  EXPECT_TRUE(has(second.error().message(), "port 0")) << second.error().message();
  EXPECT_FALSE(
      Server::open({.listen = {"nowhere.example", 0}}, [](const Request&) { return Answer{}; }));
}

TEST_F(HttpServer, ListensOnIpv6) {
  auto server = Server::open({.listen = {"[::1]", 0}}, [](const Request&) { return Answer{}; });
  if (!server) GTEST_SKIP() << "no IPv6 here: " << server.error().message();
  EXPECT_NE((*server)->place().port, 0);
  EXPECT_EQ((*server)->place().host, "[::1]");
}

// With connections that stay.
class HttpConversation : public HttpServer {
 protected:
  void converse(ServerOptions options = {}) {
    options.listen = {"127.0.0.1", 0};
    auto server = Server::open(options, [this](const Request& request) -> Answer {
      if (request.path == "/thrown") throw std::runtime_error("no answer");
      if (request.path == "/pieces")
        return {.content_type = "text/event-stream", .stream = [this](Writer& to) {
                  while (to.write("piece\n")) {
                    if (++pieces_ == wanted_) return;
                    if (!to.is_open()) break;
                  }
                  gone_.set_value();
                }};
      return {.body = request.method + " " + request.path + " " + request.client + " " +
                      std::string(request.header("x-word")) + " " +
                      (request.query.empty() ? "" : request.query.begin()->second) + " " +
                      std::to_string(request.body.size()),
              .headers = {{"X-Extra", "1"}}};
    });
    ASSERT_TRUE(server) << server.error().message();
    server_ = *std::move(server);
  }
  // Until so many bytes of bodies have come, or the end.
  static std::string hear_until(const Descriptor& socket, const std::string& last) {
    std::string all;
    char part[4096];
    while (!all.ends_with(last)) {
      const ssize_t count = ::recv(socket.get(), part, sizeof part, 0);
      if (count <= 0) return all + "(end)";
      all.append(part, static_cast<std::size_t>(count));
    }
    return all;
  }
  std::atomic<int> pieces_{0};
  int wanted_ = 3;
  std::promise<void> gone_;
};

TEST_F(HttpConversation, AnswersOneRequestAfterAnotherOnAConnection) {
  converse();
  const Descriptor socket = dial();
  for (int round = 0; round < 3; ++round) {
    say(socket, "POST /a?b=c HTTP/1.1\r\nHost: h\r\nX-Word: w\r\nContent-Length: 5\r\n\r\nhello");
    const std::string answer = hear_until(socket, " 5");
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
    EXPECT_TRUE(has(answer, "X-Extra: 1\r\n")) << answer;
    EXPECT_TRUE(answer.ends_with("POST /a 127.0.0.1 w c 5")) << answer;
  }
}

TEST_F(HttpConversation, AnswersWhatWasAskedInOneBreath) {
  converse();
  const Descriptor socket = dial();
  say(socket,
      "GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  const std::string answer = hear(socket);
  EXPECT_TRUE(has(answer, "GET /a ")) << answer;
  EXPECT_TRUE(has(answer, "GET /b ")) << answer;
}

TEST_F(HttpConversation, IdleConnectionsTakeNoThread) {
  converse({.threads = 1, .connections = 40});
  std::vector<Descriptor> idle;
  for (int i = 0; i < 30; ++i) {
    idle.push_back(dial());
    say(idle.back(), "GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_TRUE(has(hear_until(idle.back(), " 0"), " 200 "));
  }
  for (const Descriptor& one : idle) {
    say(one, "GET /again HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_TRUE(has(hear_until(one, " 0"), "GET /again"));
  }
}

// It keeps as many requests under way as its socket holds.
TEST_F(HttpConversation, OneThatAsksWithoutEndKeepsNobodyFromTheOnlyThread) {
  converse({.threads = 1});
  const Descriptor greedy = dial();
  std::string many;
  for (int i = 0; i < 200; ++i) many += "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";
  std::atomic<bool> over = false;
  auto telling = std::async(std::launch::async, [&] {
    for (std::size_t at = 0; !over;) {
      const ssize_t sent = ::send(greedy.get(), many.data() + at, many.size() - at, MSG_NOSIGNAL);
      if (sent <= 0) return;
      at = (at + static_cast<std::size_t>(sent)) % many.size();
    }
  });
  std::array<char, 65536> heard;
  ASSERT_GT(::recv(greedy.get(), heard.data(), heard.size(), 0), 0);
  auto hearing = std::async(std::launch::async, [&] {
    while (::recv(greedy.get(), heard.data(), heard.size(), 0) > 0) {
    }
  });
  auto asking = std::async(std::launch::async, [&] {
    const Descriptor other = dial();
    say(other, "GET /b HTTP/1.1\r\nHost: h\r\n\r\n");
    return hear_until(other, " 0");
  });
  EXPECT_EQ(asking.wait_for(20s), std::future_status::ready);
  over = true;
  ::shutdown(greedy.get(), SHUT_RDWR);
  EXPECT_TRUE(has(asking.get(), "GET /b"));
}

TEST_F(HttpConversation, TheOneIdleForLongestGivesWay) {
  converse({.connections = 2});
  const Descriptor first = dial();
  say(first, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(has(hear_until(first, " 0"), " 200 "));
  const Descriptor second = dial(), third = dial();
  say(third, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(has(hear_until(third, " 0"), " 200 "));
}

TEST_F(HttpConversation, ClosesWhatIsIdleForTooLong) {
  converse({.idle = 50ms});
  const Descriptor socket = dial();
  say(socket, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(has(hear(socket), " 200 "));
}

TEST_F(HttpConversation, LetsABodyComeThatWaitsToBeAskedFor) {
  converse();
  const Descriptor socket = dial();
  say(socket, "POST /a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
  EXPECT_EQ(hear_until(socket, "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  say(socket, "hello");
  EXPECT_TRUE(has(hear_until(socket, " 5"), "POST /a "));
}

TEST_F(HttpConversation, TakesNoBodyOfWhomItRefusesByTheHead) {
  ServerOptions options;
  options.look_at_head = [](const Request& head) -> std::optional<Answer> {
    if (head.header("x-word") == "open") return {};
    return Answer{.status = 401, .body = "no"};
  };
  converse(std::move(options));
  const Descriptor socket = dial();
  say(socket, "POST /a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
  const std::string refused = hear_until(socket, "no");
  EXPECT_TRUE(refused.starts_with("HTTP/1.1 401 ")) << refused;
  const Descriptor known = dial();
  say(known, "POST /a HTTP/1.1\r\nHost: h\r\nX-Word: open\r\nContent-Length: 5\r\n\r\nhello");
  EXPECT_TRUE(has(hear_until(known, " 5"), "POST /a "));
}

TEST_F(HttpConversation, ARefusalByTheHeadHasTheFormOfItsOwnRequest) {
  ServerOptions options;
  options.threads = 1;
  options.look_at_head = [](const Request&) { return Answer{.status = 401, .body = "no"}; };
  converse(std::move(options));
  const Descriptor first = dial(), second = dial(), third = dial();
  say(first, "HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(has(hear_until(first, "\r\n\r\n"), " 200 "));
  say(second, "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n");
  EXPECT_TRUE(hear(second).ends_with("\r\n\r\nno")) << "of an earlier request's";
  say(third, "HEAD /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n");
  const std::string refused = hear(third);
  EXPECT_TRUE(has(refused, " 401 ") && refused.ends_with("\r\n\r\n")) << refused;
}

// With the whole head of the second behind the first.
TEST_F(HttpConversation, WhatIsAskedInOneBreathWaitsToBeAskedForItsBodyToo) {
  ServerOptions options;
  options.look_at_head = [](const Request& head) -> std::optional<Answer> {
    if (head.header("x-word") != "shut") return {};
    return Answer{.status = 401, .body = "no"};
  };
  converse(std::move(options));
  const std::string first = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n",
                    second =
                        "POST /b HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n"
                        "Content-Length: 5\r\n";
  const Descriptor open = dial(), shut = dial();
  for (int round = 0; round < 2; ++round) {
    say(open, first + second + "\r\n");
    EXPECT_TRUE(has(hear_until(open, "100 Continue\r\n\r\n"), "GET /a "));
    say(open, "hello");
    EXPECT_TRUE(has(hear_until(open, " 5"), "POST /b "));
  }
  say(shut, first + second + "X-Word: shut\r\n\r\n");
  EXPECT_TRUE(has(hear(shut), "HTTP/1.1 401 "));
}

TEST_F(HttpConversation, RefusesInTheWordsOfWhoeverAnswers) {
  ServerOptions options;
  options.refuse = [](const Request& request, int status, const std::string& why) {
    return Answer{.status = status, .body = "{" + request.path + ": " + why + "}"};
  };
  converse(std::move(options));
  const std::string answer = ask("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 50000\r\n\r\n");
  EXPECT_TRUE(has(answer, " 413 ") && has(answer, "{/a: the request's body")) << answer;
}

TEST_F(HttpConversation, StreamsPieceByPieceAndGoesOn) {
  converse();
  const Descriptor socket = dial();
  say(socket, "GET /pieces HTTP/1.1\r\nHost: h\r\n\r\n");
  const std::string answer = hear_until(socket, "0\r\n\r\n");
  EXPECT_TRUE(has(answer, "Transfer-Encoding: chunked\r\n")) << answer;
  EXPECT_TRUE(answer.ends_with("6\r\npiece\n\r\n6\r\npiece\n\r\n6\r\npiece\n\r\n0\r\n\r\n"))
      << answer;
  say(socket, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(has(hear_until(socket, " 0"), "GET /a "));
}

TEST_F(HttpConversation, AStreamEndsWithItsReader) {
  wanted_ = -1;
  converse();
  {
    const Descriptor socket = dial();
    say(socket, "GET /pieces HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_TRUE(has(hear_until(socket, "\r\n"), " 200 "));
  }
  EXPECT_EQ(gone_.get_future().wait_for(20s), std::future_status::ready);
}

TEST_F(HttpConversation, AStreamEndsWithAReaderThatDoesNotRead) {
  wanted_ = -1;
  converse({.deadline = 200ms, .answer_deadline = 1h});
  const Descriptor socket = dial();
  say(socket, "GET /pieces HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(gone_.get_future().wait_for(20s), std::future_status::ready);
}

TEST_F(HttpConversation, AnAnswerThatThrowsIsOneTooAndTellsNothing) {
  converse();
  const std::string answer = ask("GET /thrown HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 500 ")) << answer;
  EXPECT_FALSE(has(answer, "no answer")) << answer;
}

TEST_F(HttpConversation, AHeadIsAnsweredWithoutABody) {
  converse();
  const std::string answer = ask("HEAD /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(has(answer, " 200 ") && answer.ends_with("\r\n\r\n")) << answer;
}

TEST_F(HttpConversation, RefusesWhatIsTooLongOrPacked) {
  converse({.body_bytes = 1000});
  EXPECT_TRUE(has(
      ask("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5000\r\n\r\n" + std::string(5000, 'x')),
      " 413 "));
  EXPECT_TRUE(has(
      ask("POST /a HTTP/1.1\r\nHost: h\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx"),
      " 415 "));
}

}  // namespace
}  // namespace gpunode::http
