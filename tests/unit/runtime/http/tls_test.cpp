// A server over TLS, asked by OpenSSL's own client; and the files that it may be given.
#include "runtime/http/tls.hpp"

#include <openssl/ssl.h>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include <fstream>

#include "runtime/base/log.hpp"
#include "runtime/http/server.hpp"
#include "tests/support/certificate.hpp"
#include "tests/support/raw_client.hpp"
#include "tests/support/temporary_folder.hpp"

namespace gpunode::http {
namespace {

using gpunode::testing::Certificate;
using gpunode::testing::make_certificate;

class TlsServer : public ::testing::Test {
 protected:
  TlsFiles files() const {
    return {(folder_.path() / "cert.pem").string(), (folder_.path() / "key.pem").string()};
  }
  void write(const Certificate& made) {
    std::ofstream(files().certificate, std::ios::trunc) << made.certificate;
    std::ofstream(files().key, std::ios::trunc) << made.key;
    ::chmod(files().key.c_str(), 0600);
  }
  void serve() {
    write(certificate_);
    ServerOptions options{.listen = {"127.0.0.1", 0}, .deadline = std::chrono::hours(1)};
    options.tls = files();
    auto server = Server::open(std::move(options), [](const Request& asked) {
      return Answer{.body = asked.path + std::string(200'000, '.') + "end"};
    });
    ASSERT_TRUE(server) << server.error().message();
    server_ = *std::move(server);
  }
  // All that comes of one request; and the server's certificate, if it was shown.
  std::string ask(int version = TLS1_3_VERSION) {
    const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(
        SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
    SSL_CTX_set_max_proto_version(context.get(), version);
    const Descriptor socket = gpunode::testing::dial(server_->place().port);
    const std::unique_ptr<SSL, decltype(&SSL_free)> session(SSL_new(context.get()), SSL_free);
    SSL_set_fd(session.get(), socket.get());
    if (SSL_connect(session.get()) != 1) return "refused";
    BIO* shown = BIO_new(BIO_s_mem());
    X509* own = SSL_get1_peer_certificate(session.get());
    PEM_write_bio_X509(shown, own);
    X509_free(own);
    seen_ = gpunode::testing::text_of(shown);
    const std::string request = "GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    SSL_write(session.get(), request.data(), static_cast<int>(request.size()));
    std::string all;
    char part[4096];
    for (int count; (count = SSL_read(session.get(), part, sizeof part)) > 0;)
      all.append(part, static_cast<std::size_t>(count));
    return all;
  }
  std::string refusal() {
    const auto opened = Tls::open(files());
    return opened ? "" : opened.error().message();
  }

  gpunode::testing::TemporaryFolder folder_;
  Certificate certificate_ = make_certificate();
  std::unique_ptr<Server> server_;
  std::string seen_;
};

TEST_F(TlsServer, AnswersOverTls13Alone) {
  serve();
  const std::string answer = ask();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer.substr(0, 100);
  EXPECT_TRUE(answer.ends_with("end"));
  EXPECT_EQ(seen_, certificate_.certificate);
  EXPECT_EQ(ask(TLS1_2_VERSION), "refused");
}

TEST_F(TlsServer, WhoSpeaksNoTlsIsToldTo) {
  serve();
  const Descriptor plain = gpunode::testing::dial(server_->place().port);
  gpunode::testing::say(plain, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_NE(gpunode::testing::hear(plain).find("https://"), std::string::npos);
}

TEST_F(TlsServer, OneThatSaysNothingHoldsNobodyUp) {
  serve();
  const Descriptor silent = gpunode::testing::dial(server_->place().port);
  EXPECT_TRUE(ask().ends_with("end"));
}

TEST_F(TlsServer, ShowsANewCertificateOnceItIsThere) {
  serve();
  ASSERT_TRUE(ask().ends_with("end"));
  const Certificate renewed = make_certificate();
  write(renewed);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (seen_ != renewed.certificate && std::chrono::steady_clock::now() < until)
    ASSERT_TRUE(ask().ends_with("end"));
  EXPECT_EQ(seen_, renewed.certificate);
}

TEST_F(TlsServer, SaysWhatIsWrongWithItsFiles) {
  EXPECT_NE(refusal().find("cert.pem"), std::string::npos);
  EXPECT_TRUE(refusal().starts_with("not_found")) << refusal();
  write({"nothing", certificate_.key});
  EXPECT_NE(refusal().find("no certificate"), std::string::npos) << refusal();
  write({certificate_.certificate, "nothing"});
  EXPECT_NE(refusal().find("no private key"), std::string::npos) << refusal();
  write({certificate_.certificate, make_certificate().key});
  EXPECT_NE(refusal().find("another certificate"), std::string::npos) << refusal();
  write(certificate_);
  EXPECT_EQ(refusal(), "");
  ::chmod(files().key.c_str(), 0644);
  EXPECT_NE(refusal().find("chmod 600"), std::string::npos) << refusal();
}

TEST_F(TlsServer, WarnsOfACertificateThatIsOverOrSoonWillBe) {
  for (const auto& [seconds, word] :
       {std::pair(-60L, "has expired"), std::pair(24L * 3600, "within two weeks")}) {
    write(make_certificate(seconds));
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(refusal(), "");
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find(word), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace gpunode::http
