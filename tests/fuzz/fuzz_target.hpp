// What is fuzzed: a target takes any bytes, as a stranger, a member, a file or a client would give
// them to one decoder or one state machine, and ends the process where a promise is broken: a crash,
// a decoded value that does not encode to the same meaning, memory out of proportion. Where targets
// are run from is fuzz_entry.cpp; what a machine is fed is a script of events.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/check.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::fuzz {

struct Target {
  std::string_view name;
  void (*run)(ByteView input);
  std::vector<Bytes> (*seeds)();  // a few valid inputs, from which the corpus is written
  // What may be allocated at one time: so much, and so many times the input's bytes.
  std::size_t base_bytes = std::size_t{1} << 20;
  std::size_t factor = 48;
};

// By what they take: frames of a link, of joining, of the cluster's gossip, of jobs, files and what
// a person writes, requests over HTTP, forms of texts; and sequences of messages into state machines.
std::vector<Target> link_targets();
std::vector<Target> join_targets();
std::vector<Target> cluster_targets();
std::vector<Target> job_targets();
std::vector<Target> file_targets();
std::vector<Target> front_targets();
std::vector<Target> form_targets();
std::vector<Target> machine_targets();

// What decodes encodes to the same meaning: to bytes that decode to a value with the same bytes.
template <class Decode, class Encode>
void round_trip(ByteView input, Decode decode, Encode encode) {
  const auto first = decode(input);
  if (!first) return;
  const Bytes once = encode(*first);
  const auto second = decode(ByteView(once));
  std::string why;
  if constexpr (requires { second.error(); })
    if (!second) why = ": " + second.error().message();
  GPUNODE_CHECK(second, "what was decoded and encoded does not decode" + why);
  GPUNODE_CHECK(encode(*second) == once, "what was decoded and encoded has another meaning");
}

// A script is events one behind the other: [what 1][who 1][length 2, little-endian][bytes]. One that
// is cut short ends with what there is.
struct Event {
  std::uint8_t what = 0;
  std::uint8_t who = 0;
  ByteView bytes;
};
inline std::vector<Event> events_of(ByteView script) {
  std::vector<Event> events;
  while (script.size() >= 4) {
    const std::size_t length =
        std::to_integer<std::size_t>(script[2]) | std::to_integer<std::size_t>(script[3]) << 8;
    const std::size_t here = std::min(length, script.size() - 4);
    events.push_back({std::to_integer<std::uint8_t>(script[0]),
                      std::to_integer<std::uint8_t>(script[1]), script.subspan(4, here)});
    script = script.subspan(4 + here);
  }
  return events;
}
inline void append(Bytes& script, std::uint8_t what, std::uint8_t who, ByteView bytes = {}) {
  for (const std::size_t one :
       {std::size_t{what}, std::size_t{who}, bytes.size() & 0xff, bytes.size() >> 8 & 0xff})
    script.push_back(static_cast<std::byte>(one));
  script.insert(script.end(), bytes.begin(), bytes.end());
}

inline Bytes text_bytes(std::string_view text) {
  return to_bytes(as_bytes(text));
}
inline std::string text_of(ByteView bytes) {
  return std::string(as_text(bytes));
}
// The first eight bytes, or those that there are.
inline std::uint64_t number_of(ByteView bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
  return value;
}

}  // namespace gpunode::fuzz
