// Nodes remember how far each other's audit logs had come, so that a log that was deleted, or put
// back as it was some other day, shows when its node comes back. Pure but for one small record.
//
// A node tells its newest head, signed, with each session and when it has grown. Who is told keeps
// it, and answers with the head that it knew before: the node looks whether its log goes on from
// there, and the other whether it has become shorter. Either of them writes down what it finds, once
// a peer, so that nobody fills a log with it. Whose log it is has signed each head: nobody else can
// make one that does not fit.
// Owned by the control thread.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "runtime/security/audit_log.hpp"

namespace gpunode::security {

class AuditWitness {
 public:
  // With what is remembered in `state_directory`, which is nothing where the record cannot be read.
  static AuditWitness open(storage::FileSystem& files, const storage::Path& state_directory);

  // What this node tells of its own log.
  static Bytes told(const AuditLog& log, const Identity& identity);

  struct Heard {
    std::optional<Bytes> answer;  // to who told it
    // To be written down: a log is not what it was. Fields and all.
    std::string event;
    std::vector<AuditField> fields;
  };
  // `key`: of `from`. What is no head of this node or of the sender's, or is not signed, gives
  // nothing.
  Heard on_told(const NodeId& from, const SignKey& key, ByteView message, const AuditLog& log,
                const Identity& identity);

  // Writes down what has become known since the last time.
  Result<void> store();

 private:
  struct SignedHead {
    AuditHead head;
    Signature signature{};
  };
  explicit AuditWitness(storage::DurableRecord record) : record_(std::move(record)) {}
  static Bytes encode(const NodeId& owner, const SignedHead& head);
  Heard on_own(const NodeId& from, const AuditHead& head, const AuditLog& log);
  Heard on_theirs(const NodeId& from, const SignedHead& head);

  storage::DurableRecord record_;
  std::map<NodeId, SignedHead> known_;
  std::set<NodeId> found_;  // whose log is wrong, or who has shown that this node's is
  bool changed_ = false;
};

}  // namespace gpunode::security
