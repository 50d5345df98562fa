// Who may be in the cluster. An Admission binds a node's two keys to the cluster under the
// signature of a member that may admit; the chain of issuers ends at the founder, whose id every
// member got with its token. Admissions is the node's grow-only set of them: the allow-list.
// Owned by the control thread, stored in one file; ZAP threads read an immutable snapshot.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/base/published.hpp"
#include "runtime/base/result.hpp"
#include "runtime/security/cluster_identity.hpp"
#include "runtime/storage/durable_record.hpp"

namespace gpunode::security {

// What a node may do; bits of Admission::rights.
inline constexpr std::uint32_t kRightMember = 1;  // connect, gossip, compute
inline constexpr std::uint32_t kRightAdmit = 2;   // make tokens and admit others
inline constexpr std::uint32_t kRightsDefault = kRightMember | kRightAdmit;  // no node is special

struct Admission {
  static constexpr std::size_t kMaxNameBytes = 64;

  ClusterId cluster;
  NodeId node;
  SignKey sign_key;
  CurveKey curve_key;
  std::string name;
  std::uint32_t rights = kRightsDefault;
  WallTime issued{};
  WallTime expires{};  // the epoch of the clock (0) = never
  NodeId issuer;
  Signature signature{};

  bool operator==(const Admission&) const = default;
  bool expired(WallTime now) const { return expires != WallTime{} && now >= expires; }
  bool may(std::uint32_t right) const { return (rights & right) == right; }

  // Fills issuer and signature. The times are cut to milliseconds, as they travel.
  void sign(const Identity& by);
  Bytes signed_bytes() const;
};

// Wire and disk form (schemas/join.fbs). Decoding checks form and bounds, not signatures.
Bytes encode_admissions(const std::vector<Admission>& admissions);
Result<std::vector<Admission>> decode_admissions(ByteView bytes);

// An immutable view of the allow-list. Any thread.
class AdmissionSnapshot {
 public:
  // The admission under which a connection with this key may be let in, or nothing.
  const Admission* find(const CurveKey& key) const;
  const Admission* find(const NodeId& node) const;  // the newest of the node
  bool allows(const CurveKey& key, WallTime now) const;
  const std::unordered_map<NodeId, Admission>& nodes() const { return by_node_; }  // newest of each
  std::size_t size() const { return by_node_.size(); }

 private:
  friend class Admissions;
  std::unordered_map<CurveKey, Admission> by_curve_;
  std::unordered_map<NodeId, Admission> by_node_;
};

class Admissions {
 public:
  static constexpr std::size_t kLimit = 65536;     // records in all
  static constexpr std::size_t kLimitPerNode = 8;  // records of one node

  // An empty list for `cluster` that lives in memory only.
  explicit Admissions(ClusterIdentity cluster);
  // The list in `state_directory`/admissions; an absent file is an empty list.
  // Fails with corrupted (damaged, or of another cluster), permission_denied, io_error.
  static Result<std::unique_ptr<Admissions>> open(storage::FileSystem& files,
                                                  const storage::Path& state_directory,
                                                  const ClusterIdentity& cluster);

  // The founder's own record, made when a cluster is. Fails with wrong_state for anyone else.
  Result<void> found(const Identity& founder, std::string name, WallTime now);

  // Makes and adds a record signed by `issuer`; durable when this returns. Fails with
  // permission_denied (the issuer may not admit), invalid_argument (keys do not match the id, the
  // Curve key belongs to another node), resource_exhausted, io_error.
  Result<Admission> admit(const Identity& issuer, Admission record);

  struct Merge {
    std::vector<Admission> added;      // to be told to others
    std::size_t known = 0;             // were here already
    std::size_t waiting = 0;           // issuer not known yet; kept until it is
    std::vector<std::string> refused;  // one sentence each
  };
  // Adds what verifies, in any order; durable when this returns. Fails only as storing does.
  Result<Merge> merge(const std::vector<Admission>& admissions);

  // Whether a record that this node signs now would be accepted.
  bool may_admit(const NodeId& issuer, WallTime now) const {
    return holds(issuer, kRightAdmit, now);
  }

  std::vector<Admission> all() const;
  const ClusterIdentity& cluster() const { return cluster_; }

  // The current allow-list. Any thread; never null.
  std::shared_ptr<const AdmissionSnapshot> snapshot() const { return snapshot_.read(); }

 private:
  enum class Verdict { good, known, issuer_unknown, bad };
  Verdict judge(const Admission& admission, std::string& why) const;
  bool holds(const NodeId& node, std::uint32_t rights, WallTime when) const;
  void insert(const Admission& admission);
  void publish();
  Result<void> store();

  ClusterIdentity cluster_;
  std::optional<storage::DurableRecord> record_;  // none: memory only
  std::map<NodeId, std::vector<Admission>> records_;
  std::unordered_map<CurveKey, NodeId> curve_owner_;
  std::vector<Admission> waiting_;
  std::size_t count_ = 0;
  bool dirty_ = false;  // something is not on disk yet
  Published<AdmissionSnapshot> snapshot_;
};

}  // namespace gpunode::security
