#include "tools/gpunode/http_asker.hpp"

#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <memory>

#include "tools/gpunode/text.hpp"

namespace gpunode::cli {
namespace {

constexpr std::string_view kHttp = "http://";
constexpr std::size_t kMostBytes = std::size_t{64} << 20, kReadBytes = 64 << 10;

Error no_http(const std::string& what) {
  return {ErrorCode::corrupted, "the service answers no HTTP: " + what};
}

std::string lower(std::string text) {
  for (char& letter : text)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return text;
}

}  // namespace

Result<HttpPlace> parse_http_url(const std::string& url) {
  const auto wrong = [&](const std::string& why) {
    return Error{ErrorCode::invalid_argument,
                 "--http wants a URL such as http://127.0.0.1:8000, not '" + url + "'" + why};
  };
  if (url.starts_with("https://")) return wrong(": TLS is not spoken here");
  if (!url.starts_with(kHttp)) return wrong("");
  const std::string authority =
      url.substr(kHttp.size(), url.find('/', kHttp.size()) - kHttp.size());
  const auto colon = authority.rfind(':');
  const bool has_port =
      colon != std::string::npos && authority.find(']', colon) == std::string::npos;
  HttpPlace place{authority.substr(0, has_port ? colon : std::string::npos),
                  has_port ? authority.substr(colon + 1) : "80"};
  if (place.host.starts_with('[') && place.host.ends_with(']'))
    place.host = place.host.substr(1, place.host.size() - 2);
  if (place.host.empty() || !parse_number(place.port, 1, 65'535)) return wrong("");
  return place;
}

Result<void> HttpAsker::connect() {
  const addrinfo hints{.ai_flags = AI_NUMERICSERV,
                       .ai_family = AF_UNSPEC,
                       .ai_socktype = SOCK_STREAM,
                       .ai_protocol = 0,
                       .ai_addrlen = 0,
                       .ai_addr = nullptr,
                       .ai_canonname = nullptr,
                       .ai_next = nullptr};
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(place_.host.c_str(), place_.port.c_str(), &hints, &found);
  if (failed != 0)
    return {ErrorCode::unavailable, place_.host + " is not known: " + ::gai_strerror(failed)};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, &::freeaddrinfo);
  int cause = 0;
  for (const addrinfo* one = found; one; one = one->ai_next) {
    Descriptor socket(::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int yes = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (::connect(socket.get(), one->ai_addr, one->ai_addrlen) == 0) {
      socket_ = std::move(socket);
      input_.clear();
      return {};
    }
    cause = errno;
  }
  return {ErrorCode::unavailable, "nobody answers at http://" + place_.host + ":" + place_.port +
                                      ": " + std::strerror(cause)};
}

Result<void> HttpAsker::send(std::string_view text) {
  while (!text.empty()) {
    const auto sent = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0) return {ErrorCode::peer_lost, std::strerror(errno)};
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

Result<void> HttpAsker::receive() {
  pollfd wanted{socket_.get(), POLLIN, 0};
  if (::poll(&wanted, 1, static_cast<int>(timeout_.count())) == 0)
    return {ErrorCode::timeout, "the service was silent for too long"};
  const std::size_t before = input_.size();
  if (before > kMostBytes) return no_http("more than 64 MiB");
  input_.resize(before + kReadBytes);
  const auto got = ::recv(socket_.get(), input_.data() + before, kReadBytes, 0);
  input_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(0, got)));
  if (got > 0) return {};
  return {ErrorCode::peer_lost, got == 0 ? "the service hung up" : std::strerror(errno)};
}

Result<void> HttpAsker::read_until(std::size_t bytes) {
  while (input_.size() < bytes)
    if (auto more = receive(); !more) return more;
  return {};
}

Result<std::string> HttpAsker::read_line() {
  std::size_t end = 0;
  while ((end = input_.find("\r\n")) == std::string::npos)
    if (auto more = receive(); !more) return more.error();
  std::string line = input_.substr(0, end);
  input_.erase(0, end + 2);
  return line;
}

Result<HttpAsker::Answer> HttpAsker::read_answer(
    const std::function<void(std::string_view)>& on_data) {
  const auto first = read_line();
  if (!first) return first.error();
  const auto status = parse_number(
      std::string_view(*first).substr(0, 12).substr(std::min<std::size_t>(9, first->size())), 100,
      599);
  if (!first->starts_with("HTTP/1.") || !status) return no_http("it begins '" + *first + "'");
  Answer answer{*status, {}};
  bool in_chunks = false, ends = false;
  std::size_t length = 0;
  for (;;) {
    const auto line = read_line();
    if (!line) return line.error();
    if (line->empty()) break;
    const std::string header = lower(*line);
    in_chunks = in_chunks || header == "transfer-encoding: chunked";
    ends = ends || header == "connection: close";
    if (header.starts_with("content-length: "))
      length =
          parse_number(std::string_view(header).substr(16), std::size_t{0}, kMostBytes).value_or(0);
  }
  do {
    if (in_chunks) {
      const auto size = read_line();
      if (!size) return size.error();
      const auto [stopped, failure] =
          std::from_chars(size->data(), size->data() + size->size(), length, 16);
      if (failure != std::errc{} || stopped == size->data() || length > kMostBytes)
        return no_http("a part of length '" + *size + "'");
    }
    if (auto all = read_until(length + (in_chunks ? 2 : 0)); !all) return all.error();
    if (on_data && length > 0) on_data(std::string_view(input_).substr(0, length));
    answer.body.append(input_, 0, length);
    input_.erase(0, length + (in_chunks ? 2 : 0));
  } while (in_chunks && length > 0);
  if (ends) socket_ = Descriptor(-1);
  return answer;
}

Result<HttpAsker::Answer> HttpAsker::ask(const std::string& path, const std::string& body,
                                         const std::function<void(std::string_view)>& on_data,
                                         const std::string& headers) {
  std::string request = (body.empty() ? "GET " : "POST ") + path +
                        " HTTP/1.1\r\nHost: " + place_.host + ":" + place_.port + "\r\n";
  if (!key_.empty()) request += "Authorization: Bearer " + key_ + "\r\n";
  if (!body.empty())
    request +=
        "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  request += headers + "\r\n" + body;
  const bool stood = socket_.get() >= 0;
  if (!stood)
    if (auto done = connect(); !done) return done.error();
  auto sent = send(request);
  if (sent) sent = receive();
  // One that stood may have been closed meanwhile, before it took anything.
  if (!sent && sent.error().code == ErrorCode::peer_lost && stood) {
    if (auto done = connect(); !done) return done.error();
    sent = send(request);
  }
  auto answer = sent ? read_answer(on_data) : Result<Answer>(sent.error());
  if (!answer) socket_ = Descriptor(-1);
  return answer;
}

}  // namespace gpunode::cli
