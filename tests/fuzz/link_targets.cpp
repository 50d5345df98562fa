// Frames of a link: what a session on control or bulk reads, before and behind its encryption.
#include <sys/socket.h>

#include "runtime/carrier/carrier_protocol.hpp"
#include "runtime/transport/detail/bulk_stream.hpp"
#include "runtime/transport/detail/control_frame.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace gpunode::fuzz {
namespace {

using namespace transport::detail;

constexpr std::uint64_t kSession = 7;

Envelope envelope(Kind kind, std::size_t payload_bytes) {
  Envelope made;
  made.kind = kind;
  made.topic = 3;
  made.stream = 4;
  made.session = kSession;
  made.seq = 1;
  made.boot = 2;
  made.payload_bytes = payload_bytes;
  if (kind == Kind::bulk_request || kind == Kind::bulk_ticket) made.ticket = std::string(44, 'T');
  return made;
}
constexpr Kind kKinds[] = {Kind::hello, Kind::welcome,   Kind::not_yet,      Kind::data,
                           Kind::reset, Kind::bulk_want, Kind::bulk_request, Kind::bulk_ticket};

void run_envelope(ByteView input) {
  round_trip(
      input, [](ByteView bytes) { return decode_envelope(bytes); },
      [](const Envelope& one) { return encode_envelope(one); });
  (void)envelope_major(input);
}

std::vector<Bytes> envelopes() {
  std::vector<Bytes> all;
  for (const Kind kind : kKinds) all.push_back(encode_envelope(envelope(kind, 0)));
  return all;
}

void run_control_frame(ByteView input) {
  Frame frame(input);
  WireMessage message;
  std::uint16_t other = 0;
  if (unpack_frame(frame, message, other) != Unpacked::message) return;
  Frame again = pack_frame(message.envelope, message.body, message.payload.view);
  WireMessage second;
  GPUNODE_CHECK(unpack_frame(again, second, other) == Unpacked::message, "a frame of our own");
  GPUNODE_CHECK(second.body == message.body && second.payload.size() == message.payload.size(),
                "another message");
}

std::vector<Bytes> control_frames() {
  std::vector<Bytes> all;
  const Bytes payload(40, std::byte{6});
  for (const Kind kind : kKinds)
    all.push_back(to_bytes(pack_frame(envelope(kind, 0), text_bytes("body")).view()));
  all.push_back(to_bytes(pack_frame(envelope(Kind::data, 40), text_bytes("body"), payload).view()));
  return all;
}

BulkChannel channel(bool plain) {
  BulkChannel made;
  made.plain = plain;
  security::BulkKey sealing, opening;
  sealing.writable()[0] = opening.writable()[0] = std::byte{1};
  made.sealer.emplace(std::move(sealing), Time{});
  made.opener.emplace(std::move(opening));
  return made;
}

struct Pair {
  Pair() {
    int fds[2];
    GPUNODE_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0,
                  "no pair of sockets");
    ours = share_descriptor(fds[0]);
    theirs = share_descriptor(fds[1]);
  }
  void put(ByteView bytes) const {
    (void)send(*ours, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  SharedDescriptor ours, theirs;
};

// Reads until the session is over or nothing is left.
void read_all(BulkStream& stream) {
  for (;;) {
    WireMessage message;
    if (stream.read(message) != BulkStream::Read::message) return;
  }
}

const std::shared_ptr<BufferPool>& pool() {
  static const auto made = std::make_shared<BufferPool>();
  return made;
}

// The bytes of a connection as anybody may send them who has its ticket.
void run_bulk(bool plain, ByteView input) {
  const Pair pair;
  BulkStream stream(pair.theirs, channel(plain), kSession, pool());
  while (!input.empty()) {
    const std::size_t part = std::min<std::size_t>(input.size(), 30'000);
    pair.put(input.first(part));
    input = input.subspan(part);
    read_all(stream);
  }
}
void run_bulk_plain(ByteView input) {
  run_bulk(true, input);
}
void run_bulk_sealed(ByteView input) {
  run_bulk(false, input);
}

// What a member with the session's keys sends: the parts of each event are sealed as they have to
// be. who: which numbers are wrong; bytes: [content length 2][payload length told 4][content].
void run_bulk_opened(ByteView input) {
  const Pair pair;
  BulkStream stream(pair.theirs, channel(false), kSession, pool());
  security::BulkKey key;
  key.writable()[0] = std::byte{1};
  security::BulkSealer sealer(std::move(key), Time{});
  for (const Event& event : events_of(input)) {
    if (event.bytes.size() < 6) continue;
    std::uint32_t told = 0;
    std::memcpy(&told, event.bytes.data() + 2, 4);
    Bytes content = to_bytes(event.bytes.subspan(6));
    const std::uint64_t session = event.what & 1 ? kSession + 1 : kSession;
    Bytes header = text_bytes("GPBK");
    const auto number = [&](std::uint64_t value, int bytes) {
      for (int at = 0; at < bytes; ++at)
        header.push_back(static_cast<std::byte>(value >> (8 * at)));
    };
    number(2, 2);
    number(1, 2);
    number(session, 8);
    number(content.size(), 4);
    number(told, 4);
    Bytes sealed(content.size() + security::kTagBytes);
    const auto sequence = sealer.seal(header, content, sealed);
    if (!sequence) return;
    number(event.what & 2 ? *sequence + event.who : *sequence, 8);
    pair.put(header);
    pair.put(sealed);
    if (told > 0 && told < 20'000) {
      const Bytes plain(told);
      Bytes payload(told + security::kTagBytes);
      if (!sealer.seal(ByteView(header).first(24), plain, payload)) return;
      pair.put(payload);
    }
    read_all(stream);
  }
}

Bytes written(bool plain) {
  const Pair pair;
  BulkStream stream(pair.ours, channel(plain), kSession, pool());
  Bytes all;
  for (const std::size_t payload : {std::size_t{0}, std::size_t{100}, std::size_t{3000}}) {
    stream.begin(Time{}, envelope(Kind::data, payload), text_bytes("body"),
                 SharedBytes::from(Bytes(payload, std::byte{3})));
    GPUNODE_CHECK(stream.write() == BulkStream::Written::all, "a socket takes so much");
    Bytes some(8000);
    const ssize_t got = recv(*pair.theirs, some.data(), some.size(), 0);
    all.insert(all.end(), some.begin(), some.begin() + std::max<ssize_t>(got, 0));
  }
  return all;
}

std::vector<Bytes> contents() {
  std::vector<Bytes> all;
  for (const std::uint32_t told : {0u, 100u}) {
    const Bytes head = encode_envelope(envelope(Kind::data, told));
    Bytes part(6);
    std::memcpy(part.data() + 2, &told, 4);
    const auto length = static_cast<std::uint32_t>(head.size());
    part.resize(10);
    std::memcpy(part.data() + 6, &length, 4);
    part.insert(part.end(), head.begin(), head.end());
    part.resize(part.size() + 9);
    Bytes script;
    for (int repeat = 0; repeat < 3; ++repeat) append(script, 0, 0, part);
    all.push_back(std::move(script));
  }
  return all;
}

void run_carrier(ByteView input) {
  using namespace carrier;
  const auto write_one = [](const auto& order) { return write(order); };
  round_trip(input, read_open, write_one);
  round_trip(input, read_join, write_one);
  round_trip(input, read_region, write_one);
  round_trip(input, read_move, write_one);
  (void)read_answer(input);
}

std::vector<Bytes> orders_to_carriers() {
  using namespace carrier;
  return {write(OpenOrder{kProtocol, "0000:0a:00.0"}),
          write(JoinOrder{1, 2, Bytes(100)}),
          write(RegionOrder{4096, {}}),
          write(MoveOrder{{{1, 0, 64}, {2, 64, 64}}, {{0, 128, 64}}}),
          write_answer(Bytes(40)),
          write_answer(Error{ErrorCode::io_error, "no GPU"})};
}

}  // namespace

std::vector<Target> link_targets() {
  constexpr std::size_t kPayload = std::size_t{17} << 20;  // one that is told and not sent yet
  return {
      {"envelope", run_envelope, envelopes},
      {"control_frame", run_control_frame, control_frames},
      {"bulk_plain", run_bulk_plain, [] { return std::vector<Bytes>{written(true)}; },
       kPayload * 2},
      {"bulk_sealed", run_bulk_sealed, [] { return std::vector<Bytes>{written(false)}; },
       kPayload * 2},
      {"bulk_opened", run_bulk_opened, contents, kPayload * 2},
      {"carrier", run_carrier, orders_to_carriers},
  };
}

}  // namespace gpunode::fuzz
