// Sequences of messages into state machines: a member with a valid key says whatever it likes, in any
// order, at any time. Only what the driver of the machine vouches for is honest: who the sender is.
#include <cmath>

#include "runtime/directory/directory.hpp"
#include "runtime/membership/membership_codec.hpp"
#include "runtime/membership/swim.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/unit/runtime/directory/signing.hpp"
#include "tests/unit/runtime/job/hostile_life.hpp"
#include "tests/unit/runtime/membership/records.hpp"
#include "tests/unit/runtime/security/join_world.hpp"

namespace gpunode::fuzz {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostEvents = 400;

std::vector<Event> bounded(ByteView script) {
  std::vector<Event> events = events_of(script);
  if (events.size() > kMostEvents) events.resize(kMostEvents);
  return events;
}

// what: 0 message, 1 time, 2 connection, 3 seed, 4 expelled, 5 leave
void run_swim(ByteView input) {
  using namespace membership;
  Time now = Time{} + 1h;
  Swim swim(test_record(0), {}, test_signing(0), 1, now);
  for (const Event& event : bounded(input)) {
    const NodeId who = test_id(event.who % 8);
    switch (event.what % 6) {
      case 0:
        (void)swim.on_message(now, who, event.bytes);
        break;
      case 1:
        now += std::chrono::milliseconds(number_of(event.bytes) % 20'000);
        (void)swim.on_tick(now);
        break;
      case 2:
        (void)swim.on_connection(now, who, static_cast<LinkState>(number_of(event.bytes) % 3));
        break;
      case 3:
        if (const auto record = decode_record(event.bytes)) (void)swim.add_seed(now, *record);
        break;
      case 4:
        (void)swim.expel(now, who);
        break;
      default:
        (void)swim.leave(now);
    }
  }
  (void)swim.on_tick(now + 1s);
}

Bytes gossip_script() {
  using namespace membership;
  Bytes script;
  for (int i = 1; i <= 3; ++i)
    append(script, 0, static_cast<std::uint8_t>(i),
           encode(Message{MessageKind::sync,
                          1,
                          {},
                          true,
                          {{PeerHealth::alive, test_id(i), {1, 0}, {}, {}, test_record(i)}}}));
  append(script, 1, 0, Bytes{std::byte{250}});
  append(script, 0, 1, encode(Message{MessageKind::ping, 4, test_id(0), false, {}}));
  append(script, 0, 1, encode(Message{MessageKind::ping_request, 5, test_id(2), false, {}}));
  append(script, 0, 2,
         encode(Message{MessageKind::gossip,
                        0,
                        {},
                        false,
                        {{PeerHealth::suspect, test_id(1), {1, 0}, {test_id(2)}, {test_id(3)}, {}},
                         {PeerHealth::dead, test_id(0), {1, 0}, {test_id(2)}, {}, {}}}}));
  append(script, 2, 1, Bytes{std::byte{1}});
  append(script, 1, 0, Bytes{std::byte{0}, std::byte{16}});
  append(script, 3, 0, encode_record(test_record(5)));
  append(script, 4, 2);
  append(script, 0, 3, encode(Message{MessageKind::ack, 4, test_id(0), false, {}}));
  append(script, 5, 0);
  append(script, 1, 0, Bytes{std::byte{250}});
  return script;
}

// what: 0 message, 1 time, 2 a peer is up, 3 it is gone, 4 an entry of our own
void run_directory_sync(ByteView input) {
  using namespace directory;
  Time now = Time{} + 1h;
  Directory map(test_id(0), 3, {}, test_signing(0), 1, now);
  for (const Event& event : bounded(input)) {
    const NodeId who = test_id(event.who % 8);
    switch (event.what % 5) {
      case 0:
        (void)map.on_message(now, who, event.bytes);
        break;
      case 1:
        now += std::chrono::milliseconds(number_of(event.bytes) % 100'000'000);
        (void)map.on_tick(now);
        break;
      case 2:
        (void)map.on_peer_up(now, who);
        break;
      case 3:
        (void)map.on_peer_gone(now, who);
        break;
      default:
        (void)map.set(now, as_text(event.bytes.first(std::min<std::size_t>(event.bytes.size(), 9))),
                      event.bytes);
    }
  }
  (void)map.scan("");
  (void)map.root();
}

Bytes update_script() {
  using namespace directory;
  Bytes script;
  append(script, 2, 1);
  append(script, 4, 0, text_bytes("job/1 of ours"));
  // What an honest peer would send.
  Time now = Time{} + 1h;
  Directory peer(test_id(1), 3, {}, test_signing(1), 1, now);
  (void)peer.on_peer_up(now, test_id(0));
  for (const char* key : {"job/2", "job/3"}) {
    const auto set = peer.set(now, key, as_bytes("value"));
    GPUNODE_CHECK(set, "an entry");
    for (const Action& action : *set)
      if (const auto* send = std::get_if<Send>(&action)) append(script, 0, 1, send->bytes);
  }
  for (int round = 0; round < 3; ++round)
    for (const Action& action : peer.on_tick(now += 1s))
      if (const auto* send = std::get_if<Send>(&action)) append(script, 0, 1, send->bytes);
  append(script, 0, 1, encode(Message{MessageKind::summary, {}, {{test_id(1), 3, 0}}, {}}));
  append(script, 0, 1, encode(Message{MessageKind::request, {}, {{test_id(0), 3, 0}}, {}}));
  append(script, 1, 0, Bytes{std::byte{0}, std::byte{16}});
  append(script, 3, 1);
  append(script, 1, 0, Bytes(3, std::byte{255}));
  return script;
}

// what: 0 a stranger's frame, 1 one that a member relays, 2 an answer to a relay, 3 time, 4 a dial
// back, 5 a true request with bytes of it changed as told (place 2, bits 1), 6 an issuer's wish that
// a stranger be dialled, 7 what came of one
void run_join_server(ByteView input) {
  using namespace security;
  static World world;
  static JoinToken token = world.token(1000);
  Node& node = world.founder;
  JoinServer server({node.identity, *node.admissions, *node.tokens, nullptr, "first",
                     [](const NodeId&) { return true; },
                     [](std::optional<NodeId>, std::size_t) {
                       return JoinServer::Seeds{{}, Bytes(8)};
                     }});
  FakeClock clock;
  std::uint64_t check = 0;
  const auto taken = [&](const JoinServer::Actions& actions) {
    for (const auto& action : actions)
      if (const auto* dial = std::get_if<JoinServer::DialBack>(&action)) check = dial->check;
    return actions;
  };
  for (const Event& event : bounded(input)) {
    const std::string address = "10.0.0." + std::to_string(event.who % 4);
    switch (event.what % 8) {
      case 0:
        taken(server.on_frame(clock.now(), clock.wall(), event.who, address, event.bytes));
        break;
      case 1:
        taken(server.on_relayed(clock.now(), clock.wall(), world.member.identity.id(), event.who,
                                event.bytes));
        break;
      case 2:
        taken(server.on_relay_answer(world.member.identity.id(), event.who, event.bytes,
                                     event.who % 2 == 0));
        break;
      case 3:
        clock.advance(std::chrono::milliseconds(number_of(event.bytes) % 100'000));
        taken(server.on_tick(clock.now(), clock.wall()));
        break;
      case 4:
        taken(server.on_dial_back(clock.wall(), check, as_text(event.bytes)));
        break;
      case 6:
        taken(server.on_dial_wish(clock.now(), world.member.identity.id(), event.who,
                                  {std::string(as_text(event.bytes))}));
        break;
      case 7:
        taken(server.on_dial_outcome(clock.wall(), world.member.identity.id(), event.who,
                                     !event.bytes.empty(), std::string(as_text(event.bytes))));
        break;
      default: {
        const auto said = server.on_frame(clock.now(), clock.wall(), 1, address,
                                          encode_hello({1, 1, node.identity.id()}));
        if (said.empty()) break;
        const auto banner = decode_banner(std::get<JoinServer::Send>(said[0]).frame);
        JoinRequest request;
        request.banner_nonce = banner->nonce;
        request.record = {"third", {}, false, {"zone=a"}};
        if (event.who & 1) request.record.advertised = {"tcp://10.0.0.3:7601"};
        Bytes frame = *encode_request(request, world.joiner.identity, token);
        for (std::size_t at = 0; at + 3 <= event.bytes.size(); at += 3)
          frame[number_of(event.bytes.subspan(at, 2)) % frame.size()] ^= event.bytes[at + 2];
        taken(server.on_frame(clock.now(), clock.wall(), 2, address, frame));
      }
    }
  }
  GPUNODE_CHECK(server.pending() <= JoinServer::kMaxPending, "requests without bound");
}

Bytes join_script() {
  using namespace security;
  Bytes script;
  append(script, 0, 1, encode_hello({1, 1, {}}));
  append(script, 5, 0);
  append(script, 5, 1);
  append(script, 4, 0, text_bytes("tcp://10.0.0.3:7601"));
  append(script, 5, 0, text_bytes("\x30\x01\x80"));
  append(script, 1, 1, encode_refusal(JoinRefusal::too_many, "later"));
  append(script, 2, 1, encode_refusal(JoinRefusal::too_many, "later"));
  append(script, 3, 0, text_bytes("\x10\x70"));
  return script;
}

// A core among liars (hostile_life.hpp): eight bytes of the input say all that is drawn for one
// event, so that events can be cut out and put together anew.
void run_job_core(ByteView input) {
  job::HostileLife life(number_of(input));
  std::size_t events = 0;
  for (ByteView left = input; left.size() > 8 && events < kMostEvents; ++events) {
    left = left.subspan(8);
    life.redraw(number_of(left));
    life.run(1);
  }
  GPUNODE_CHECK(life.most_actions() < 5000, "actions without bound");
}

std::vector<Bytes> lives() {
  std::vector<Bytes> all;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    Bytes one;
    for (std::uint64_t event = 0; event < 150; ++event) append_number(one, mix(seed, event));
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace

std::vector<Target> machine_targets() {
  // What they may keep of others is bounded by their own limits, not by one input.
  constexpr std::size_t kKept = std::size_t{8} << 20;
  return {
      {"swim", run_swim, [] { return std::vector<Bytes>{gossip_script()}; }, kKept},
      {"directory_sync", run_directory_sync, [] { return std::vector<Bytes>{update_script()}; },
       kKept},
      {"join_server", run_join_server, [] { return std::vector<Bytes>{join_script()}; }, kKept},
      {"job_core", run_job_core, lives, kKept},
  };
}

}  // namespace gpunode::fuzz
