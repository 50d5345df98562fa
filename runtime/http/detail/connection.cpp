#include "runtime/http/detail/connection.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace gpunode::http::detail {
namespace {

constexpr std::size_t kPieceBytes = 16 << 10;  // as much as TLS has in a record

}  // namespace

void Connection::FreesSession::operator()(ssl_st* session) const {
  SSL_free(session);
}

Connection::Connection(Descriptor socket, std::string client, Session session,
                       RequestReader::Limits limits, SlowReaders* slow_readers)
    : socket_(std::move(socket)),
      client_(std::move(client)),
      session_(std::move(session)),
      reader_(limits),
      slow_readers_(slow_readers),
      wanted_(POLLIN) {
  if (session_) SSL_set_fd(session_.get(), socket_.get());
}

Connection::~Connection() = default;

Connection::Got Connection::receive() {
  char piece[kPieceBytes];
  const ssize_t count = read_some(piece, sizeof piece);
  if (count <= 0) return count < 0 && !broken_ ? Got::nothing : Got::end;
  reader_.add({piece, static_cast<std::size_t>(count)});
  return Got::bytes;
}

bool Connection::throw_away() {
  char piece[kPieceBytes];  // as it is, without TLS
  ssize_t count = 0;
  do count = ::recv(socket_.get(), piece, sizeof piece, MSG_DONTWAIT);
  while (count > 0);
  wanted_ = POLLIN;
  return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

bool Connection::send(std::string_view bytes, SteadyTime until) {
  while (!bytes.empty()) {
    const ssize_t count = write_some(bytes.substr(0, kPieceBytes));
    if (count > 0)
      bytes.remove_prefix(static_cast<std::size_t>(count));
    else if (broken_ || count == 0 || !wait_to_write(until))
      return false;
  }
  return true;
}

bool Connection::wait_to_write(SteadyTime until) const {
  constexpr auto kHurried = std::chrono::milliseconds(100);
  if (!slow_readers_) return wait(until);
  if (++slow_readers_->now > slow_readers_->most)
    until = std::min(until, SteadyTime(std::chrono::steady_clock::now() + kHurried));
  const bool ready = wait(until);
  --slow_readers_->now;
  return ready;
}

void Connection::end() {
  ended = true;
  if (session_ && !broken_ && SSL_is_init_finished(session_.get())) {
    ERR_clear_error();
    SSL_shutdown(session_.get());
  }
  ::shutdown(socket_.get(), SHUT_WR);
}

bool Connection::is_gone() const {
  pollfd one{socket_.get(), POLLRDHUP, 0};
  return ::poll(&one, 1, 0) > 0 && one.revents != 0;
}

ssize_t Connection::read_some(char* to, std::size_t most) {
  if (session_) {
    ERR_clear_error();
    return told_by_session(SSL_read(session_.get(), to, static_cast<int>(most)));
  }
  for (;;) {
    const ssize_t count = ::recv(socket_.get(), to, most, MSG_DONTWAIT);
    if (count >= 0) return count;
    if (errno == EINTR) continue;
    wanted_ = POLLIN;
    broken_ = errno != EAGAIN && errno != EWOULDBLOCK;
    return -1;
  }
}

ssize_t Connection::write_some(std::string_view bytes) {
  if (session_) {
    ERR_clear_error();
    return told_by_session(SSL_write(session_.get(), bytes.data(), static_cast<int>(bytes.size())));
  }
  for (;;) {
    const ssize_t count =
        ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) return count;
    if (errno == EINTR) continue;
    wanted_ = POLLOUT;
    broken_ = errno != EAGAIN && errno != EWOULDBLOCK;
    return -1;
  }
}

ssize_t Connection::told_by_session(int result) {
  if (result > 0) return result;
  switch (SSL_get_error(session_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      wanted_ = POLLIN;
      return -1;
    case SSL_ERROR_WANT_WRITE:
      wanted_ = POLLOUT;
      return -1;
    case SSL_ERROR_ZERO_RETURN:
      return 0;
    case SSL_ERROR_SSL:
      plain_to_tls_ = ERR_GET_REASON(ERR_peek_error()) == SSL_R_HTTP_REQUEST;
      break;
    default:
      break;
  }
  ERR_clear_error();
  broken_ = true;
  return -1;
}

bool Connection::wait(SteadyTime until) const {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    constexpr std::int64_t kLongest = 3'600'000;
    pollfd one{socket_.get(), wanted_, 0};
    const int ready =
        ::poll(&one, 1, static_cast<int>(std::min<std::int64_t>(left.count(), kLongest)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

}  // namespace gpunode::http::detail
