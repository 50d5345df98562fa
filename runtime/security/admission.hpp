// Who may be in the cluster, and what each may do. An Admission names a node and its rights under
// the signature of a member that may admit; the chain of issuers ends at the founder, whose id every
// member got with its token. The node itself says which key its links use (LinkKey); a Revocation
// puts it out for good. Admissions is the node's grow-only set of the three: whatever order they
// come in, who has them all judges alike. Owned by the control thread, stored in one file; ZAP
// threads read an immutable snapshot.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/base/published.hpp"
#include "runtime/base/result.hpp"
#include "runtime/security/cluster_identity.hpp"
#include "runtime/security/rights.hpp"
#include "runtime/storage/durable_record.hpp"

namespace gpunode::security {

struct Admission {
  static constexpr std::size_t kMaxNameBytes = 64;

  ClusterId cluster;
  NodeId node;
  SignKey sign_key;
  std::string name;
  Rights rights = kRightsDefault;
  WallTime issued{};
  WallTime expires{};  // the epoch of the clock (0) = never
  NodeId issuer;
  Signature signature{};

  bool operator==(const Admission&) const = default;
  bool expired(WallTime now) const { return expires != WallTime{} && now >= expires; }

  // Fills issuer and signature. The times are cut to milliseconds, as they travel.
  void sign(const Identity& by);
  Bytes signed_bytes() const;
};

// Puts a node out for good, by one that may operate. Two that put each other out are both out.
struct Revocation {
  static constexpr std::size_t kMaxReasonBytes = 128;
  static constexpr std::size_t kMaxKept = 4096;

  ClusterId cluster;
  NodeId node;
  std::string reason;
  std::vector<NodeId> kept;  // of those that it let in itself; all others of them are out too
  WallTime issued{};
  NodeId issuer;
  Signature signature{};

  bool operator==(const Revocation&) const = default;
  void sign(const Identity& by);
  Bytes signed_bytes() const;
};

// What nodes tell each other of who may be here. Each part verifies by itself.
struct Credentials {
  std::vector<Admission> admissions;
  std::vector<LinkKey> link_keys;
  std::vector<Revocation> revocations;

  bool operator==(const Credentials&) const = default;
  bool empty() const { return admissions.empty() && link_keys.empty() && revocations.empty(); }
  std::size_t size() const { return admissions.size() + link_keys.size() + revocations.size(); }
};

// Wire and disk form (schemas/join.fbs). Decoding checks form and bounds, not signatures.
Bytes encode_credentials(const Credentials& credentials);
Result<Credentials> decode_credentials(ByteView bytes);

// Where one node stands, by all that is known of it.
struct Standing {
  std::vector<Admission> admissions;  // that count; the newest first
  std::optional<LinkKey> link_key;
  std::optional<CurveKey> curve_key;  // of link_key
  bool revoked = false;

  const std::string& name() const { return admissions.front().name; }
  const SignKey& sign_key() const { return admissions.front().sign_key; }
  // What it may do now, by all its admissions together; none once it is put out.
  Rights rights(WallTime now) const;
  bool may(Rights wanted, WallTime now) const { return (rights(now) & wanted) == wanted; }
  bool is_member(WallTime now) const;
};

// An immutable view of the allow-list. Any thread.
class AdmissionSnapshot {
 public:
  // Whose links use this key, or nothing.
  const NodeId* owner_of(const CurveKey& key) const;
  // Nothing for a node that was never admitted; those that are put out are there.
  const Standing* find(const NodeId& node) const;
  bool is_member(const NodeId& node, WallTime now) const;
  bool may(const NodeId& node, Rights wanted, WallTime now) const;
  const std::unordered_map<NodeId, Standing>& nodes() const { return nodes_; }
  std::size_t size() const { return nodes_.size(); }

 private:
  friend class Admissions;
  std::unordered_map<NodeId, Standing> nodes_;
  std::unordered_map<CurveKey, NodeId> by_curve_;
};

class Admissions {
 public:
  static constexpr std::size_t kLimit = 65536;     // of each kind
  static constexpr std::size_t kLimitPerNode = 8;  // admissions, and revocations, of one node

  // An empty list for `cluster` that lives in memory only.
  explicit Admissions(ClusterIdentity cluster);
  // The list in `state_directory`/admissions; an absent file is an empty list.
  // Fails with corrupted (damaged, or of another cluster), permission_denied, io_error.
  static Result<std::unique_ptr<Admissions>> open(storage::FileSystem& files,
                                                  const storage::Path& state_directory,
                                                  const ClusterIdentity& cluster);

  // The founder's own record, with all rights, made when a cluster is. Fails with wrong_state for
  // anyone else.
  Result<void> found(const Identity& founder, std::string name, WallTime now);

  // Makes and adds a record signed by `issuer`, and the link key of the node; durable when this
  // returns. Fails with permission_denied (the issuer may not admit, or lacks a right that it
  // grants), invalid_argument (keys do not match the id), resource_exhausted, io_error.
  Result<Admission> admit(const Identity& issuer, Admission record, const LinkKey& link_key);

  // Puts `node` out; those that it let in stay, unless `with_admitted`. Durable when this returns.
  // Fails with permission_denied (the issuer may not operate), not_found, invalid_argument (the
  // issuer itself), resource_exhausted, io_error.
  Result<Revocation> revoke(const Identity& issuer, const NodeId& node, std::string reason,
                            bool with_admitted, WallTime now);

  struct Merge {
    Credentials added;                 // to be told to others
    std::size_t known = 0;             // were here already
    std::size_t waiting = 0;           // issuer or owner not known yet; kept until it is
    std::vector<std::string> refused;  // one sentence each
  };
  // Adds what verifies, in any order; durable when this returns. Fails only as storing does.
  Result<Merge> merge(const Credentials& credentials);

  Credentials all() const;
  const ClusterIdentity& cluster() const { return cluster_; }

  // The current allow-list. Any thread; never null.
  std::shared_ptr<const AdmissionSnapshot> snapshot() const { return snapshot_.read(); }

 private:
  enum class Verdict { good, known, unproven, bad };
  struct Judged {
    Verdict verdict = Verdict::good;
    std::string why = {};
  };
  Judged judge(const Admission& admission) const;
  Judged judge(const LinkKey& link_key) const;
  Judged judge(const Revocation& revocation) const;
  using ByNode = std::unordered_map<NodeId, std::vector<Admission>>;
  ByNode that_count(bool heeded) const;
  bool held(const NodeId& node, Rights rights, WallTime when) const;
  bool vouched_for(const NodeId& issuer, const NodeId& node) const;
  void insert(const Admission& admission);
  void insert(const LinkKey& link_key);
  void insert(const Revocation& revocation);
  template <class Record>
  bool merge_some(std::vector<Record>& pending, std::vector<Record>& added, Merge& merge);
  void publish();
  Result<void> store();

  ClusterIdentity cluster_;
  std::optional<storage::DurableRecord> record_;  // none: memory only
  std::map<NodeId, std::vector<Admission>> admissions_;
  std::map<NodeId, std::pair<LinkKey, CurveKey>> link_keys_;  // with what is made of it
  std::map<NodeId, std::vector<Revocation>> revocations_;
  ByNode ever_;  // what counts if nobody had been put out
  Credentials waiting_;
  std::size_t count_ = 0;  // of admissions
  bool dirty_ = false;     // something is not on disk yet
  Published<AdmissionSnapshot> snapshot_;
};

}  // namespace gpunode::security
