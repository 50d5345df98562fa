// Peers remember how far an audit log had come: one that was deleted or put back shows.
#include "runtime/security/audit_witness.hpp"

#include "tests/support/memory_file_system.hpp"
#include "tests/unit/runtime/security/now.hpp"

#include <gtest/gtest.h>

namespace gpunode::security {
namespace {

using testing::MemoryFileSystem;

struct Side {
  MemoryFileSystem disk;
  Identity identity = Identity::create();
  std::optional<AuditLog> log;
  std::optional<AuditWitness> witness;

  Side() {
    EXPECT_TRUE(disk.create_folder("/state"));
    start();
  }
  void start() {
    log.emplace(std::move(*AuditLog::open_or_begin_anew(disk, "/state", identity, kNow, {})));
    witness.emplace(AuditWitness::open(disk, "/state"));
  }
  void write(int entries, const char* event = "a") {
    for (int number = 0; number < entries; ++number) EXPECT_TRUE(log->append(kNow, event, {}));
  }
  void remove_log() {
    EXPECT_TRUE(disk.remove("/state/audit"));
    EXPECT_TRUE(disk.remove("/state/audit.head"));
    start();
  }
  AuditWitness::Heard hears(const Side& from, const Bytes& message) {
    return witness->on_told(from.identity.id(), from.identity.sign_key(), message, *log, identity);
  }
};

struct Pair {
  Side node, peer;
  std::string at_node, at_peer;  // what each finds

  // The node tells its head, and hears the answer.
  void tell() {
    at_node.clear();
    auto heard = peer.hears(node, AuditWitness::told(*node.log, node.identity));
    at_peer = heard.event;
    if (heard.answer) at_node = node.hears(peer, *heard.answer).event;
  }
};

TEST(AuditWitness, finds_nothing_in_a_log_that_goes_on) {
  Pair pair;
  for (int round = 0; round < 3; ++round) {
    pair.tell();
    EXPECT_EQ(pair.at_node + pair.at_peer, "");
    pair.node.write(round);
    pair.node.start();
  }
}

TEST(AuditWitness, shows_both_that_a_log_was_deleted_also_after_a_restart_of_the_peer) {
  Pair pair;
  pair.node.write(3);
  pair.tell();
  ASSERT_TRUE(pair.peer.witness->store());
  pair.peer.start();
  pair.node.remove_log();
  pair.tell();
  EXPECT_EQ(pair.at_node, "audit_rolled_back");
  EXPECT_EQ(pair.at_peer, "peer_audit_rolled_back");
  pair.tell();  // told once
  EXPECT_EQ(pair.at_node + pair.at_peer, "");
}

TEST(AuditWitness, shows_a_log_that_was_put_back_and_has_grown_past_what_it_was) {
  Pair pair;
  pair.node.write(3);
  pair.tell();
  pair.node.remove_log();
  pair.node.write(5, "b");
  pair.tell();
  EXPECT_EQ(pair.at_node, "audit_rolled_back");
}

TEST(AuditWitness, does_not_believe_heads_that_their_owner_has_not_signed) {
  Pair pair;
  Side other;
  pair.node.write(3);
  other.write(9);
  // A peer that makes up a head of the node's, and one that speaks for another.
  Bytes made_up = AuditWitness::told(*other.log, other.identity);
  std::ranges::copy(pair.node.identity.id().value, made_up.begin());
  EXPECT_EQ(pair.node.hears(pair.peer, made_up).event, "");
  pair.tell();
  EXPECT_FALSE(
      pair.peer.hears(other, AuditWitness::told(*pair.node.log, pair.node.identity)).answer);
  Bytes changed = AuditWitness::told(*pair.node.log, pair.node.identity);
  changed[33] ^= std::byte{1};
  EXPECT_FALSE(pair.peer.hears(pair.node, changed).answer);
  for (std::size_t size = 0; size < changed.size(); ++size)
    EXPECT_EQ(pair.peer.hears(pair.node, Bytes(changed.begin(), changed.begin() + size)).event, "");
}

TEST(AuditWitness, a_peer_that_goes_back_and_forth_is_written_down_once) {
  Pair pair;
  const Bytes first = AuditWitness::told(*pair.node.log, pair.node.identity);
  pair.node.write(1);
  const Bytes second = AuditWitness::told(*pair.node.log, pair.node.identity);
  int found = 0;
  for (int round = 0; round < 10; ++round) {
    found += !pair.peer.hears(pair.node, second).event.empty();
    found += !pair.peer.hears(pair.node, first).event.empty();
  }
  EXPECT_EQ(found, 1);
}

TEST(AuditWitness, goes_on_where_its_record_is_damaged) {
  Pair pair;
  pair.tell();
  ASSERT_TRUE(pair.peer.witness->store());
  ASSERT_TRUE(pair.peer.disk.write_atomic("/state/audit.peers", {as_bytes("nonsense")}));
  pair.peer.start();
  pair.tell();
  EXPECT_EQ(pair.at_peer, "");
}

}  // namespace
}  // namespace gpunode::security
