// What members tell each other outside jobs: gossip, the replicated map, calls, relayed joins.
#include "actors/inference/generate_codec.hpp"
#include "actors/node/call_codec.hpp"
#include "actors/node/relay_codec.hpp"
#include "runtime/directory/directory_codec.hpp"
#include "runtime/membership/membership_codec.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/sharing.hpp"
#include "tests/unit/runtime/membership/records.hpp"

namespace gpunode::fuzz {
namespace {

void run_membership(ByteView input) {
  using namespace membership;
  round_trip(
      input, [](ByteView bytes) { return decode(bytes); },
      [](const Message& message) { return encode(message); });
}
void run_record(ByteView input) {
  round_trip(input, membership::decode_record, membership::encode_record);
}

std::vector<Bytes> gossip() {
  using namespace membership;
  Message sync{MessageKind::sync, 5, test_id(2), true, {}};
  for (int i = 1; i <= 3; ++i)
    sync.rumors.push_back({PeerHealth::alive, test_id(i), {1, 0}, {}, {}, test_record(i)});
  Message claim{MessageKind::ping, 7, test_id(1), false, {}};
  claim.rumors.push_back({PeerHealth::suspect, test_id(1), {1, 3}, {test_id(2)}, {test_id(3)}, {}});
  return {encode(sync), encode(claim), encode(Message{MessageKind::ack, 8, test_id(1), false, {}})};
}

void run_directory(ByteView input) {
  using namespace directory;
  round_trip(
      input, [](ByteView bytes) { return decode(bytes); },
      [](const Message& message) { return encode(message); });
}

std::vector<Bytes> updates() {
  using namespace directory;
  const NodeId owner = membership::test_id(1);
  Delta delta{owner, 2,  0,
              9,     {}, Bytes(64),
              3,     9,  {{"job/1", Bytes(30), 5, false}, {"job/2", {}, 9, true}}};
  return {encode(Message{MessageKind::root, {}, {}, {}}),
          encode(Message{MessageKind::summary, {}, {{owner, 2, 9}}, {}}),
          encode(Message{MessageKind::deltas, {}, {}, {delta, delta}}), shared_items()};
}

void run_call(ByteView input) {
  using namespace node;
  round_trip(input, decode_call, [](const CallMessage& one) { return encode(one); });
}
void run_relay(ByteView input) {
  using namespace node;
  round_trip(input, decode_relay, [](const RelayMessage& one) { return encode(one); });
}
void run_generate(ByteView input) {
  using namespace inference;
  round_trip(input, decode_generate, [](const GenerateMessage& one) { return encode(one); });
}

}  // namespace

std::vector<Target> cluster_targets() {
  return {
      {"membership", run_membership, gossip},
      {"member_record", run_record,
       [] { return std::vector<Bytes>{membership::encode_record(membership::test_record(1))}; }},
      {"directory", run_directory, updates},
      {"call", run_call,
       [] {
         return std::vector<Bytes>{
             node::encode(node::CallHeader{"job.show", 500}),
             node::encode(node::ReplyHeader{false, {ErrorCode::not_found, "no such job"}, true})};
       }},
      {"relay", run_relay,
       [] {
         return std::vector<Bytes>{
             node::encode(node::RelayMessage{node::RelayKind::relay_request, 7}),
             node::encode(node::RelayMessage{node::RelayKind::dial_wish, 8, {"tcp://10.0.0.9:1"}}),
             node::encode(node::RelayMessage{node::RelayKind::dial_outcome, 8, {}, true, "::1"})};
       }},
      {"generate", run_generate,
       [] {
         return std::vector<Bytes>{
             inference::encode(inference::GeneratePiece{7, 3, "more"}),
             inference::encode(inference::GenerateRequest{
                 .prompt = "Once", .max_tokens = 20, .temperature = 0.5, .stop = {"\n"}}),
             inference::encode(inference::GenerateAnswer{"upon", 4, "length", "ab", 10, 0.1})};
       }},
  };
}

}  // namespace gpunode::fuzz
