#include "runtime/transport/local_socket.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.hpp"

namespace gpunode::transport {
namespace {

class LocalSocket : public ::testing::Test {
 protected:
  std::unique_ptr<LocalServer> serve(LocalServer::RequestFn on_request) {
    auto server = LocalServer::open(path(), std::move(on_request));
    EXPECT_TRUE(server) << server.error().message();
    return server ? std::move(*server) : nullptr;
  }
  std::string path() { return (folder_.path() / "node.sock").string(); }
  Result<std::string> call(std::string request) {
    LocalCall call;
    call.path = path();
    call.request = std::move(request);
    call.timeout = std::chrono::seconds(10);
    call.on_partial = [this](const std::string& text) { partials_.push_back(text); };
    return call_local(call);
  }
  sockaddr_un address() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path().copy(address.sun_path, sizeof address.sun_path - 1);
    return address;
  }
  int listen_here(int backlog) {
    const int door = ::socket(AF_UNIX, SOCK_STREAM, 0);
    const sockaddr_un here = address();
    EXPECT_EQ(::bind(door, reinterpret_cast<const sockaddr*>(&here), sizeof here), 0);
    EXPECT_EQ(::listen(door, backlog), 0);
    return door;
  }
  // A connection, or -1 where it would have to wait.
  int dial() {
    const int guest = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    const sockaddr_un there = address();
    if (::connect(guest, reinterpret_cast<const sockaddr*>(&there), sizeof there) == 0)
      return guest;
    ::close(guest);
    return -1;
  }
  gpunode::testing::TemporaryFolder folder_;
  std::vector<std::string> partials_;
};

TEST_F(LocalSocket, ARequestIsAnsweredAfterItsPartialReplies) {
  auto server = serve([](std::string request, Responder responder) {
    responder.partial(request + " 1");
    responder.partial(request + " 2");
    responder.finish(request + " done");
    responder.partial("too late");
  });
  auto answer = call("step");
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(*answer, "step done");
  EXPECT_EQ(partials_, (std::vector<std::string>{"step 1", "step 2"}));
}

TEST_F(LocalSocket, AResponderMayBeKeptAndAnsweredFromAnotherThread) {
  std::promise<Responder> kept;
  auto server = serve([&](std::string, Responder responder) { kept.set_value(responder); });
  std::thread later([&] { kept.get_future().get().finish("late"); });
  auto answer = call("x");
  later.join();
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(*answer, "late");
}

TEST_F(LocalSocket, AForgottenResponderStillEndsTheCall) {
  auto server = serve([](std::string, Responder) {});
  auto answer = call("x");
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(*answer, "");
}

TEST_F(LocalSocket, WithoutANodeTheErrorSaysHowToStartOne) {
  auto answer = call("x");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::unavailable);
  EXPECT_NE(answer.error().detail.find("gpunode up"), std::string::npos);
  EXPECT_NE(answer.error().detail.find(folder_.path().string()), std::string::npos);
}

TEST_F(LocalSocket, ANodeThatEndsBeforeItAnsweredIsAPeerLost) {
  std::promise<Responder> kept;
  auto server = serve([&](std::string, Responder responder) { kept.set_value(responder); });
  auto answer = std::async(std::launch::async, [&] { return call("x"); });
  Responder responder = kept.get_future().get();
  EXPECT_FALSE(responder.gone());
  server->close();
  auto got = answer.get();
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::peer_lost);
  EXPECT_TRUE(responder.gone());
}

TEST_F(LocalSocket, SilenceIsATimeout) {
  std::vector<Responder> kept;
  auto server = serve([&](std::string, Responder responder) { kept.push_back(responder); });
  LocalCall silent;
  silent.path = path();
  silent.timeout = std::chrono::milliseconds(50);
  auto answer = call_local(silent);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::timeout);
  server->close();
}

TEST_F(LocalSocket, ANodeThatGivesAConnectionUpBeforeAWordAndStillListensDoesNotAnswer) {
  const int door = listen_here(8);
  std::thread guard([door] {
    for (int guest = ::accept(door, nullptr, nullptr); guest >= 0;
         guest = ::accept(door, nullptr, nullptr))
      ::close(guest);
  });
  auto answer = call("x");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::timeout) << answer.error().message();
  EXPECT_NE(answer.error().detail.find("stopped"), std::string::npos);
  ::shutdown(door, SHUT_RDWR);
  guard.join();
  ::close(door);
}

TEST_F(LocalSocket, WhereTheQueueOfConnectionsIsFullItIsTriedAgain) {
  const int door = listen_here(0);
  std::vector<int> waiting;
  for (int one = dial(); one >= 0; one = dial()) waiting.push_back(one);
  auto answer = std::async(std::launch::async, [&] { return call("x"); });
  EXPECT_EQ(answer.wait_for(std::chrono::milliseconds(60)), std::future_status::timeout);
  const std::string other = path() + "2";
  auto server = LocalServer::open(
      other, [](std::string request, Responder responder) { responder.finish(request + "y"); });
  ASSERT_TRUE(server) << server.error().message();
  ASSERT_EQ(::rename(other.c_str(), path().c_str()), 0);
  auto got = answer.get();
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_EQ(*got, "xy");
  for (const int one : waiting) ::close(one);
  ::close(door);
}

TEST_F(LocalSocket, ANodeThatEndsAsTheCommandDialsIsAPeerLost) {
  for (int round = 0; round < 20; ++round) {
    ::unlink(path().c_str());
    const int door = listen_here(8);
    std::thread guard([door] {
      ::close(::accept(door, nullptr, nullptr));  // it is looked whether somebody is there
      ::close(door);
    });
    auto answer = call("x");
    guard.join();
    ASSERT_FALSE(answer);
    EXPECT_NE(answer.error().code, ErrorCode::timeout) << round << answer.error().message();
  }
}

TEST_F(LocalSocket, TheSocketFileIsTheOwnersAloneAndGoesWithTheServer) {
  auto server = serve([](std::string, Responder) {});
  struct stat status {};
  ASSERT_EQ(::stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0600u);
  server->close();
  EXPECT_NE(::stat(path().c_str(), &status), 0);
}

TEST_F(LocalSocket, ASecondServerIsRefusedAndASuccessorIsNot) {
  auto server = serve([](std::string, Responder responder) { responder.finish("first"); });
  auto second = LocalServer::open(path(), [](std::string, Responder) {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::already_exists);
  for (int life = 0; life < 20; ++life) {
    server->close();
    server =
        serve([life](std::string, Responder responder) { responder.finish(std::to_string(life)); });
    auto answer = call("x");
    ASSERT_TRUE(answer) << answer.error().message();
    EXPECT_EQ(*answer, std::to_string(life));
  }
}

TEST_F(LocalSocket, APathThatIsTooLongIsRefusedByName) {
  std::string path = "/tmp/" + std::string(110, 'x') + "/control.sock";
  auto server = LocalServer::open(path, [](std::string, Responder) {});
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(server.error().detail.find("107"), std::string::npos);
}

}  // namespace
}  // namespace gpunode::transport
