// What a hostile member, or a stranger beside it, does to others: each attack is a small step that is
// repeated as fast as the process may run.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/hostile/hostile_member.hpp"

namespace gpunode::hostile {

class Attack {
 public:
  virtual ~Attack() = default;
  virtual void step() = 0;
  virtual std::uint64_t done() const = 0;  // what it counts: messages, connections, identities
};

struct AttackOptions {
  Member* member = nullptr;
  std::uint64_t seed = 1;
  std::string corpus;  // of the fuzzers: what is mutated
  std::vector<std::string> tokens;
  std::vector<std::string> jobs;  // ids, 32 hexadecimal digits
  NodeId victim = {};             // of the attacks of one kind
  std::string manifest;           // a job's, on disk, that their calls bring
};

// Null: nothing has that name.
std::unique_ptr<Attack> make_attack(std::string_view name, const AttackOptions& options);
const std::vector<std::string>& attack_names();

// Of one kind of message or call alone: the names of actors/node/peer_limits.hpp.
std::unique_ptr<Attack> make_kind(std::string_view name, const AttackOptions& options);
std::unique_ptr<Attack> make_garbage(const AttackOptions& options);
std::unique_ptr<Attack> make_forged(const AttackOptions& options);
std::unique_ptr<Attack> make_replay(const AttackOptions& options);
std::unique_ptr<Attack> make_calls(const AttackOptions& options);
std::unique_ptr<Attack> make_slow(const AttackOptions& options);
std::unique_ptr<Attack> make_frames(const AttackOptions& options);
std::unique_ptr<Attack> make_flood(const AttackOptions& options);
std::unique_ptr<Attack> make_churn(const AttackOptions& options);
// What harms nobody: "arithmetic", "messages" or "connections", to itself.
std::unique_ptr<Attack> make_harmless(std::string_view name);

}  // namespace gpunode::hostile
