#include "runtime/transport/detail/bulk_stream.hpp"

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "runtime/transport/link.hpp"

namespace gpunode::transport::detail {

static_assert(std::endian::native == std::endian::little, "the header is copied as it lies");

namespace {

constexpr std::uint16_t kSealed = 1;
// Below that a copy costs less than to ask.
constexpr std::size_t kWorthAsking = std::size_t{32} << 10;
constexpr std::size_t kMaxContentBytes = 4 + kMaxEnvelopeBytes + kMaxBodyBytes;
// What the kernel may hold that it has not sent: more urgent messages overtake what is not there.
constexpr int kUnsentBytes = 512 << 10;

struct Header {
  char magic[4] = {'G', 'P', 'B', 'K'};
  std::uint16_t version = 2;
  std::uint16_t flags = 0;
  std::uint64_t session = 0;
  std::uint32_t content_bytes = 0;
  std::uint32_t payload_bytes = 0;
};
constexpr std::size_t kHeaderBytes = sizeof(Header);
static_assert(kHeaderBytes == 24);

template <class T>
void put(std::byte* to, const T& value) {
  std::memcpy(to, &value, sizeof value);
}
template <class T>
T get(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

bool split(ByteView content, WireMessage& into) {
  if (content.size() < 4) return false;
  const auto length = get<std::uint32_t>(content.data());
  if (length > content.size() - 4) return false;
  auto envelope = decode_envelope(content.subspan(4, length));
  const ByteView body = content.subspan(4 + length);
  if (!envelope || body.size() > kMaxBodyBytes) return false;
  into.envelope = std::move(*envelope);
  into.body = to_bytes(body);
  return true;
}

}  // namespace

BulkStream::BulkStream(SharedDescriptor connection, BulkChannel channel, std::uint64_t session,
                       std::shared_ptr<BufferPool> pool)
    : connection_(std::move(connection)),
      channel_(std::move(channel)),
      session_(session),
      pool_(std::move(pool)) {
  const int fd = *connection_;
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
             15'000);  // keepalive is silent while bytes are unacknowledged
  set_option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, kUnsentBytes);
}

// Writing.

bool BulkStream::begin(Time now, const Envelope& envelope, ByteView body,
                       const SharedBytes& payload) {
  const Bytes head = encode_envelope(envelope);
  const std::size_t content = 4 + head.size() + body.size();
  const std::size_t tag = tag_bytes();
  Header header;
  header.flags = channel_.plain ? 0 : kSealed;
  header.session = session_;
  header.content_bytes = static_cast<std::uint32_t>(content);
  header.payload_bytes = static_cast<std::uint32_t>(payload.size());

  auto front = std::make_shared<Bytes>(kFrontBytes + content + tag);
  std::byte* at = front->data();
  put(at, header);
  put(at + kHeaderBytes, std::uint64_t{0});
  put(at + kFrontBytes, static_cast<std::uint32_t>(head.size()));
  std::memcpy(at + kFrontBytes + 4, head.data(), head.size());
  if (!body.empty()) std::memcpy(at + kFrontBytes + 4 + head.size(), body.data(), body.size());

  Part second{payload.view, payload.owner};  // plain: sent from where its owner keeps it
  if (!channel_.plain) {
    security::BulkSealer& sealer = *channel_.sealer;
    if (sealer.rekey_due(now)) sealer.rekey(now);
    const ByteView associated(at, kHeaderBytes);
    auto number =
        sealer.seal(associated, {at + kFrontBytes, content}, {at + kFrontBytes, content + tag});
    if (!number) return false;
    put(at + kHeaderBytes, *number);
    if (!payload.empty()) {
      BufferPool::Buffer sealed = pool_->take(payload.size() + tag);
      const MutableByteView whole(sealed.get(), payload.size() + tag);
      if (!sealer.seal(associated, payload.view, whole)) return false;
      second = {whole, std::move(sealed)};
    }
  }
  out_.push_back({{front->data(), front->size()}, front});
  if (!second.left.empty()) out_.push_back(std::move(second));
  return true;
}

BulkStream::Written BulkStream::write() {
  while (!out_.empty()) {
    std::array<iovec, 64> parts;
    msghdr message{};
    message.msg_iov = parts.data();
    for (; message.msg_iovlen < std::min(out_.size(), parts.size()); ++message.msg_iovlen) {
      const ByteView left = out_[message.msg_iovlen].left;
      parts[message.msg_iovlen] = {const_cast<std::byte*>(left.data()), left.size()};
    }
    ssize_t sent = ::sendmsg(*connection_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN ? Written::blocked : Written::broken;
    }
    auto left = static_cast<std::size_t>(sent);
    auto through = out_.begin();
    for (; through != out_.end() && left >= through->left.size(); ++through)
      left -= through->left.size();
    out_.erase(out_.begin(), through);
    if (!out_.empty()) out_.front().left = out_.front().left.subspan(left);
  }
  return Written::all;
}

std::size_t BulkStream::unsent_bytes() const {
  int bytes = 0;
  return ::ioctl(*connection_, SIOCOUTQ, &bytes) == 0 ? static_cast<std::size_t>(bytes) : 0;
}

// Reading.

// Until the whole of a part is here; what came behind it is kept: mostly the next header, which so
// costs no system call of its own.
BulkStream::Filled BulkStream::fill(MutableByteView part) {
  const std::size_t known = std::min(part.size() - filled_, ahead_end_ - ahead_begin_);
  if (known > 0) std::memcpy(part.data() + filled_, ahead_.data() + ahead_begin_, known);
  filled_ += known;
  ahead_begin_ += known;
  while (filled_ < part.size()) {
    const std::size_t missing = part.size() - filled_;
    iovec parts[2] = {{part.data() + filled_, missing}, {ahead_.data(), ahead_.size()}};
    const ssize_t got = ::readv(*connection_, parts, 2);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return Filled::not_yet;
    if (got <= 0) return Filled::ended;
    const auto here = std::min(static_cast<std::size_t>(got), missing);
    filled_ += here;
    ahead_begin_ = 0;
    ahead_end_ = static_cast<std::size_t>(got) - here;
  }
  filled_ = 0;
  return Filled::yes;
}

BulkStream::Read BulkStream::read(WireMessage& into) {
  for (;;) {
    MutableByteView part = front_;
    if (step_ == Step::content) part = content_;
    if (step_ == Step::payload) part = payload_.view;
    const Filled filled = fill(part);
    if (filled != Filled::yes) return filled == Filled::ended ? Read::ended : Read::nothing;
    Read read = Read::nothing;
    if (step_ == Step::header)
      read = take_header();
    else if (step_ == Step::content)
      read = take_content(into);
    else
      read = take_payload(into);
    if (read != Read::nothing) return read;
  }
}

BulkStream::Read BulkStream::take_header() {
  const auto header = get<Header>(front_.data());
  Header expected;
  expected.flags = channel_.plain ? 0 : kSealed;
  expected.session = session_;
  expected.content_bytes = header.content_bytes;
  expected.payload_bytes = header.payload_bytes;
  if (std::memcmp(&header, &expected, sizeof header) != 0) return Read::bad;
  if (header.content_bytes > kMaxContentBytes || header.payload_bytes > kMaxBulkPayloadBytes)
    return Read::bad;
  content_.resize(header.content_bytes + tag_bytes());
  step_ = Step::content;
  return Read::nothing;
}

BulkStream::Read BulkStream::take_content(WireMessage& into) {
  const auto header = get<Header>(front_.data());
  MutableByteView content = content_;
  if (!channel_.plain) {
    const auto number = get<std::uint64_t>(front_.data() + kHeaderBytes);
    auto opened = channel_.opener->open(number, ByteView(front_).first(kHeaderBytes), content);
    if (!opened) return Read::bad;
    content = *opened;
  }
  incoming_ = {};
  if (!split(content, incoming_) || incoming_.envelope.payload_bytes != header.payload_bytes)
    return Read::bad;
  step_ = Step::header;
  if (header.payload_bytes == 0) {
    into = std::move(incoming_);
    return Read::message;
  }
  payload_ = memory_for_payload(header.payload_bytes);
  step_ = Step::payload;
  return Read::nothing;
}

WritableBytes BulkStream::memory_for_payload(std::size_t size) {
  if (channel_.plain && memory_for_ && size >= kWorthAsking) {
    WritableBytes lent = memory_for_(incoming_);
    if (lent.view.size() == size) return lent;
  }
  BufferPool::Buffer buffer = pool_->take(size + tag_bytes());
  const MutableByteView bytes(buffer.get(), size + tag_bytes());
  return {std::move(buffer), bytes};
}

BulkStream::Read BulkStream::take_payload(WireMessage& into) {
  const std::size_t size = incoming_.envelope.payload_bytes;
  if (!channel_.plain) {
    const auto number = get<std::uint64_t>(front_.data() + kHeaderBytes) + 1;
    if (!channel_.opener->open(number, ByteView(front_).first(kHeaderBytes), payload_.view))
      return Read::bad;
  }
  step_ = Step::header;
  into = std::move(incoming_);
  into.payload = {std::move(payload_.owner), payload_.view.first(size)};
  payload_ = {};
  return Read::message;
}

}  // namespace gpunode::transport::detail
