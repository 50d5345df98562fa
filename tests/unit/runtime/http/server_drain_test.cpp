// A server that is about to end: what is under way is answered, and nobody else is waited for.
#include <poll.h>
#include <sys/socket.h>

#include <gtest/gtest.h>

#include <ctime>
#include <future>

#include "runtime/http/server.hpp"
#include "tests/support/raw_client.hpp"

namespace gpunode::http {
namespace {

using namespace std::chrono_literals;
using gpunode::testing::hear;
using gpunode::testing::say;

class DrainedServer : public ::testing::Test {
 protected:
  DrainedServer() {
    ServerOptions options{.listen = {"127.0.0.1", 0}, .deadline = 1h, .idle = 1h};
    auto server = Server::open(options, [this](const Request& request) -> Answer {
      if (request.path == "/slow") {
        asked_.set_value();
        may_answer_.get_future().wait();
      }
      return {.body = request.path + " with " + request.body + "."};
    });
    EXPECT_TRUE(server) << server.error().message();
    server_ = *std::move(server);
  }
  Descriptor dial() { return gpunode::testing::dial(server_->place().port); }
  // As much as ends so, or all.
  static std::string hear_until(const Descriptor& socket, const std::string& last) {
    std::string all;
    for (char one; !all.ends_with(last) && ::recv(socket.get(), &one, 1, 0) == 1;) all += one;
    return all;
  }
  // Soon, and with no answer.
  static bool is_ended(const Descriptor& socket) {
    pollfd one{socket.get(), POLLIN, 0};
    char byte = 0;
    return ::poll(&one, 1, 20'000) > 0 && ::recv(socket.get(), &byte, 1, 0) <= 0;
  }
  // A request whose body is to come, once the server has read its head.
  Descriptor begin() {
    Descriptor half = dial();
    say(half,
        "POST /half HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    EXPECT_EQ(hear_until(half, "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    return half;
  }
  std::future<void> drain() {
    return std::async(std::launch::async, [this] { server_->drain(60s); });
  }

  std::promise<void> asked_, may_answer_;
  std::unique_ptr<Server> server_;
};

TEST_F(DrainedServer, SendsAwayWhoAsksNothing) {
  const Descriptor silent = dial(), idle = dial();
  say(idle, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(hear_until(idle, "with .").starts_with("HTTP/1.1 200 "));
  auto drained = drain();
  EXPECT_TRUE(is_ended(idle));
  EXPECT_TRUE(is_ended(silent));
  EXPECT_EQ(drained.wait_for(20s), std::future_status::ready);
}

TEST_F(DrainedServer, AnswersARequestThatIsHalfHereAndSaysThatItIsTheLast) {
  const Descriptor half = begin(), idle = dial();
  auto drained = drain();
  EXPECT_TRUE(is_ended(idle)) << "it drains";
  EXPECT_EQ(drained.wait_for(100ms), std::future_status::timeout);
  say(half, "hello");
  const std::string answer = hear(half);
  EXPECT_NE(answer.find("Connection: close\r\n"), std::string::npos) << answer;
  EXPECT_TRUE(answer.ends_with("/half with hello.")) << answer;
  EXPECT_EQ(drained.wait_for(20s), std::future_status::ready);
}

TEST_F(DrainedServer, WaitsForAnAnswerThatIsBeingMade) {
  const Descriptor socket = dial(), idle = dial();
  say(socket, "GET /slow HTTP/1.1\r\nHost: h\r\n\r\n");
  ASSERT_EQ(asked_.get_future().wait_for(20s), std::future_status::ready);
  auto drained = drain();
  EXPECT_TRUE(is_ended(idle)) << "it drains";
  EXPECT_EQ(drained.wait_for(100ms), std::future_status::timeout);
  may_answer_.set_value();
  EXPECT_NE(hear(socket).find("Connection: close\r\n"), std::string::npos);
  EXPECT_EQ(drained.wait_for(20s), std::future_status::ready);
}

TEST_F(DrainedServer, WaitsNoLongerThanItMayAndTakesNoTime) {
  const Descriptor half = begin();
  const std::clock_t before = std::clock();  // of all threads of this process
  server_->drain(500ms);
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 8) << "its watcher waits too";
}

}  // namespace
}  // namespace gpunode::http
