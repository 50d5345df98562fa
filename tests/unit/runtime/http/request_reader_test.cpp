#include "runtime/http/request_reader.hpp"

#include <gtest/gtest.h>

namespace gpunode::http {
namespace {

using Stage = RequestReader::Stage;

RequestReader reader(std::string_view bytes) {
  RequestReader made({.head_bytes = 200, .body_bytes = 20});
  made.add(bytes);
  return made;
}

int status_of(std::string_view bytes) {
  const RequestReader made = reader(bytes);
  EXPECT_EQ(made.stage(), Stage::failed) << bytes;
  return made.status();
}

const std::string kWhole =
    "POST /a%20b?x=1+2&y=%26 HTTP/1.1\r\nHost: here\r\nX-Word:  w \r\nContent-Length: "
    "5\r\n\r\nhello";

void expect_whole(const Request& request) {
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.path, "/a b");
  EXPECT_EQ(request.query.find("x")->second, "1 2");
  EXPECT_EQ(request.query.find("y")->second, "&");
  EXPECT_EQ(request.header("x-word"), "w");
  EXPECT_EQ(request.body, "hello");
}

TEST(RequestReader, ReadsARequestHoweverItIsCut) {
  for (std::size_t cut = 0; cut <= kWhole.size(); ++cut) {
    RequestReader made = reader(kWhole.substr(0, cut));
    EXPECT_EQ(made.stage() == Stage::whole, cut == kWhole.size());
    made.add(kWhole.substr(cut));
    ASSERT_EQ(made.stage(), Stage::whole) << cut << made.why();
    EXPECT_TRUE(made.keeps_alive());
    expect_whole(made.take());
    EXPECT_TRUE(made.is_empty());
  }
}

TEST(RequestReader, ReadsChunksHoweverTheyAreCut) {
  const std::string whole =
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n"
      "3;a=b\r\nhel\r\n2\r\nlo\r\n0\r\nTrailer: x\r\n\r\n";
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    RequestReader made = reader(whole.substr(0, cut));
    made.add(whole.substr(cut));
    ASSERT_EQ(made.stage(), Stage::whole) << cut << made.why();
    EXPECT_EQ(made.take().body, "hello");
    EXPECT_TRUE(made.is_empty());
  }
}

TEST(RequestReader, ReadsOneRequestBehindTheOther) {
  RequestReader made = reader(kWhole + "\r\n" + kWhole + "GET /b HTTP/1.0\r\n\r\nG");
  expect_whole(made.take());
  ASSERT_EQ(made.stage(), Stage::whole);
  expect_whole(made.take());
  ASSERT_EQ(made.stage(), Stage::whole);
  EXPECT_TRUE(made.is_1_0());
  EXPECT_FALSE(made.keeps_alive());
  EXPECT_EQ(made.take().path, "/b");
  EXPECT_EQ(made.stage(), Stage::head);
  EXPECT_FALSE(made.is_empty());
}

TEST(RequestReader, TellsWhetherAClientWaitsToBeAskedForItsBody) {
  const std::string head =
      "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
  RequestReader made = reader(head);
  EXPECT_EQ(made.stage(), Stage::body);
  EXPECT_EQ(made.told_body_bytes(), 5u);
  EXPECT_TRUE(made.take_continue());
  EXPECT_FALSE(made.take_continue());
  EXPECT_FALSE(reader(head + "hel").take_continue());
}

TEST(RequestReader, RefusesWhatTwoCouldReadDifferently) {
  const std::string line = "POST / HTTP/1.1\r\nHost: h\r\n";
  for (const char* head :
       {"Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "Content-Length: +5\r\n",
        "Content-Length: 5, 5\r\n", "Content-Length: 0x5\r\n", "Content-Length:\r\n",
        "Content-Length : 5\r\n", "X: a\r\n folded\r\n", "No colon\r\n", ": nothing\r\n",
        "Host: a\r\nHost: b\r\n", "Authorization: a\r\nauthorization: b\r\n",
        "X: a\nContent-Length: 5\r\n", "X: a\rb\r\n"})
    EXPECT_EQ(status_of(line + head + "\r\n"), 400) << head;
  EXPECT_EQ(status_of(line + "Transfer-Encoding: gzip, chunked\r\n\r\n"), 501);
  EXPECT_EQ(status_of("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
  EXPECT_EQ(status_of(line + "Expect: miracles\r\n\r\n"), 417);
  EXPECT_EQ(status_of(line + "Content-Encoding: gzip\r\n\r\n"), 415);
  const std::string chunked = line + "Transfer-Encoding: chunked\r\n\r\n";
  for (const char* body : {"x\r\n", "\r\n", "-1\r\n", "3\r\nabcd\r\n", "fffffffff\r\n"})
    EXPECT_EQ(status_of(chunked + body), 400) << body;
  EXPECT_EQ(status_of(chunked + std::string(300, '1')), 400);
}

TEST(RequestReader, WantsAHostOfWhoSpeaksHttp11) {
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n"), 400);
  EXPECT_EQ(reader("GET / HTTP/1.1\r\nHost:\r\n\r\n").stage(), Stage::whole);
  EXPECT_EQ(reader("GET / HTTP/1.0\r\n\r\n").stage(), Stage::whole);
}

TEST(RequestReader, RefusesWhatIsNoRequest) {
  for (const char* line :
       {"nonsense", "GET /", "GET  HTTP/1.1", "G(T / HTTP/1.1", "GET a HTTP/1.1",
        "GET /a b HTTP/1.1", "GET /%zz HTTP/1.1", "GET /%0a HTTP/1.1", "GET /?a=%2 HTTP/1.1",
        "\x16\x03\x01", " / HTTP/1.1", "GET * HTTP/1.1", "AMETHODTHATISTOOLONG / HTTP/1.1"})
    EXPECT_EQ(status_of(std::string(line) + "\r\n\r\n"), 400) << line;
  EXPECT_EQ(status_of("PRI * HTTP/2.0\r\n\r\n"), 505);
}

TEST(RequestReader, RefusesWhatIsTooLong) {
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(300, 'x')), 431);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: h\r\n" + std::string(300, 'x') + ": a\r\n\r\n"),
            431);
  RequestReader many({.head_bytes = 10'000});
  std::string head = "GET / HTTP/1.1\r\nHost: h\r\n";
  for (int i = 0; i < 101; ++i) head += "X: a\r\n";
  many.add(head + "\r\n");
  EXPECT_EQ(many.status(), 431);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 21\r\n\r\n"), 413);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n"),
            413);
  const std::string chunked = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(status_of(chunked + "10\r\n0123456789abcdef\r\n5\r\n"), 413);
  std::string trailers = chunked + "0\r\n";
  for (int i = 0; i < 30; ++i) trailers += "Trailer: 0123\r\n";
  EXPECT_EQ(status_of(trailers), 431);
}

TEST(RequestReader, TakesATargetAsProxiesWriteIt) {
  EXPECT_EQ(reader("GET http://here:80/a?b=c HTTP/1.1\r\nHost: h\r\n\r\n").request().path, "/a");
  EXPECT_EQ(reader("GET http://here HTTP/1.1\r\nHost: h\r\n\r\n").request().path, "/");
  EXPECT_EQ(reader("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n").request().path, "*");
}

}  // namespace
}  // namespace gpunode::http
