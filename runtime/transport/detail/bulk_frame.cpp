#include "runtime/transport/detail/bulk_frame.hpp"

#include <bit>

#include "runtime/transport/detail/limits.hpp"

namespace gpunode::transport::detail {

static_assert(std::endian::native == std::endian::little, "the header is copied as it lies");

namespace {

constexpr std::size_t kHeaderBytes = 24;
constexpr std::size_t kFrontBytes = kHeaderBytes + 8;
constexpr std::size_t kPoolBytes = std::size_t{64} << 20;
constexpr std::uint16_t kSealed = 1;

struct Header {
  char magic[4] = {'G', 'P', 'B', 'K'};
  std::uint16_t version = 1;
  std::uint16_t flags = 0;
  std::uint64_t session = 0;
  std::uint64_t payload_bytes = 0;
};
static_assert(sizeof(Header) == kHeaderBytes);

// What a frame of ZeroMQ's holds while it sends a payload.
struct Lent {
  SharedBytes payload;             // plain: the caller's memory
  std::shared_ptr<SealPool> pool;  // sealed: where the buffer goes back to
  SealPool::Buffer buffer;
  std::shared_ptr<Charge> charge;
};

void give_back(void*, void* hint) {
  std::unique_ptr<Lent> lent(static_cast<Lent*>(hint));
  if (lent->pool) lent->pool->give(std::move(lent->buffer));
}

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

std::optional<Incoming> split(ByteView content) {
  if (content.size() < 4) return std::nullopt;
  auto length = get<std::uint32_t>(content.data());
  if (length > content.size() - 4) return std::nullopt;
  auto envelope = decode_envelope(content.subspan(4, length));
  ByteView body = content.subspan(4 + length);
  if (!envelope || body.size() > kMaxBodyBytes) return std::nullopt;
  return Incoming{std::move(*envelope), to_bytes(body), {}};
}

}  // namespace

SealPool::Buffer SealPool::take(std::size_t size) {
  {
    std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < free_.size(); ++i) {
      if (free_[i].capacity < size || free_[i].capacity > size * 2) continue;
      Buffer buffer = std::move(free_[i]);
      free_[i] = std::move(free_.back());
      free_.pop_back();
      kept_ -= buffer.capacity;
      return buffer;
    }
  }
  std::size_t capacity = std::bit_ceil(size);
  return {std::unique_ptr<std::byte[]>(new std::byte[capacity]), capacity};
}

void SealPool::give(Buffer buffer) {
  std::lock_guard lock(mutex_);
  if (kept_ + buffer.capacity > kPoolBytes) return;
  kept_ += buffer.capacity;
  free_.push_back(std::move(buffer));
}

Frames pack_bulk(BulkChannel& channel, std::uint64_t session, const Envelope& envelope,
                 ByteView body, const SharedBytes& payload, const std::shared_ptr<Charge>& charge,
                 SealPool& pool, Time now) {
  Bytes head = encode_envelope(envelope);
  std::size_t content = 4 + head.size() + body.size();
  std::size_t tag = channel.plain ? 0 : security::kTagBytes;
  Header header;
  header.flags = channel.plain ? 0 : kSealed;
  header.session = session;
  header.payload_bytes = payload.size();

  Frame front(kFrontBytes + content + tag);
  std::byte* at = front.data();
  put(at, header);
  put(at + kHeaderBytes, std::uint64_t{0});
  put(at + kFrontBytes, static_cast<std::uint32_t>(head.size()));
  std::memcpy(at + kFrontBytes + 4, head.data(), head.size());
  if (!body.empty()) std::memcpy(at + kFrontBytes + 4 + head.size(), body.data(), body.size());

  Frames parts;
  parts.reserve(3);
  if (channel.plain) {
    parts.push_back(std::move(front));
    if (!payload.empty()) {
      parts.emplace_back(payload.view, give_back, new Lent{payload, nullptr, {}, charge});
    }
    return parts;
  }
  security::BulkSealer& sealer = *channel.sealer;
  if (sealer.rekey_due(now)) sealer.rekey(now);
  ByteView associated(at, kHeaderBytes);
  auto number =
      sealer.seal(associated, {at + kFrontBytes, content}, {at + kFrontBytes, content + tag});
  if (!number) return {};
  put(at + kHeaderBytes, *number);
  if (!payload.empty()) {
    SealPool::Buffer buffer = pool.take(payload.size() + tag);
    MutableByteView sealed(buffer.bytes.get(), payload.size() + tag);
    if (!sealer.seal(associated, payload.view, sealed)) return {};
    parts.push_back(std::move(front));
    parts.emplace_back(sealed, give_back,
                       new Lent{{}, pool.shared_from_this(), std::move(buffer), charge});
    return parts;
  }
  parts.push_back(std::move(front));
  return parts;
}

namespace {

Unpacked finish(BulkChannel& channel, Frame& frame, Incoming& into) {
  BulkChannel::Half half = std::move(*channel.half);
  channel.half.reset();
  std::size_t size = half.incoming.envelope.payload_bytes;
  std::size_t tag = channel.plain ? 0 : security::kTagBytes;
  if (frame.size() != size + tag) return Unpacked::bad;
  if (!channel.plain && !channel.opener->open(half.number, half.header, frame.bytes())) {
    return Unpacked::bad;
  }
  into = std::move(half.incoming);
  auto owner = std::make_shared<Frame>(std::move(frame));
  into.payload = {owner, owner->view().first(size)};
  return Unpacked::message;
}

}  // namespace

Unpacked unpack_bulk(BulkChannel& channel, std::uint64_t session, Frame& frame, Incoming& into) {
  if (channel.half) return finish(channel, frame, into);
  if (frame.size() < kFrontBytes) return Unpacked::bad;
  MutableByteView front = frame.bytes();
  auto header = get<Header>(front.data());
  Header expected;
  expected.flags = channel.plain ? 0 : kSealed;
  expected.session = session;
  expected.payload_bytes = header.payload_bytes;
  if (std::memcmp(&header, &expected, sizeof header) != 0) return Unpacked::bad;
  if (header.payload_bytes > kMaxBulkPayloadBytes) return Unpacked::bad;

  ByteView associated = front.first(kHeaderBytes);
  auto number = get<std::uint64_t>(front.data() + kHeaderBytes);
  MutableByteView content = front.subspan(kFrontBytes);
  if (!channel.plain) {
    auto opened = channel.opener->open(number, associated, content);
    if (!opened) return Unpacked::bad;
    content = *opened;
  }
  auto incoming = split(content);
  if (!incoming || incoming->envelope.payload_bytes != header.payload_bytes) return Unpacked::bad;
  if (header.payload_bytes == 0) {
    into = std::move(*incoming);
    return Unpacked::message;
  }
  channel.half.emplace();
  channel.half->incoming = std::move(*incoming);
  std::memcpy(channel.half->header.data(), associated.data(), associated.size());
  channel.half->number = number + 1;
  return Unpacked::half;
}

}  // namespace gpunode::transport::detail
