// Who may be in the cluster, and what each may do. An Admission names a node and its rights under
// the signature of a member that may admit; the chain of issuers ends at the founder or at the recovery key,
// which every member got with its token. The node itself says which key its links use (LinkKey); a Revocation
// puts it out for good. Admissions is the node's set of the three: whatever order they come in, who
// has them all judges alike. What is forgotten of it, and why that lets nobody back in:
// admission_upkeep.cpp. Owned by the control thread, stored in two files; ZAP threads read an
// immutable snapshot. One more record costs about as much among 10,000 nodes as among ten.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
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
  // Names the record: SHA-256 of what its issuer has signed.
  std::array<std::byte, 32> digest() const;
};

// Puts a node out for good, by one that may operate. Two that put each other out are both out; else
// what one orders that a senior has put out is void (admission_settle.cpp). Of several by one issuer the
// newest counts.
struct Revocation {
  static constexpr std::size_t kMaxReasonBytes = 128;
  static constexpr std::size_t kMaxKept = 4096;

  ClusterId cluster;
  NodeId node;
  std::string reason;
  // Digests, in order, of the admissions by it that stand; all others by it are void, also those that
  // it signs later.
  std::vector<std::array<std::byte, 32>> kept;
  WallTime issued{};
  NodeId issuer;
  Signature signature{};

  bool operator==(const Revocation&) const = default;
  // What it takes of the room for revocations: one, and one for each four records that it names.
  std::size_t weight() const { return 1 + (kept.size() + 3) / 4; }
  void sign(const Identity& by);
  Bytes signed_bytes() const;
};

// When somebody last saw a node alive. Unsigned: it decides only how long its records are kept.
struct Sighting {
  NodeId node;
  WallTime at{};
  bool operator==(const Sighting&) const = default;
};

// What nodes tell each other of who may be here. Each signed part verifies by itself.
struct Credentials {
  std::vector<Admission> admissions;
  std::vector<LinkKey> link_keys;
  std::vector<Revocation> revocations;
  std::vector<Sighting> sightings = {};

  bool operator==(const Credentials&) const = default;
  bool empty() const { return admissions.empty() && link_keys.empty() && revocations.empty(); }
  // The same in parts of at most about so many bytes each, who is put out first.
  std::vector<Credentials> parts(std::size_t most_bytes) const;
  std::size_t size() const { return admissions.size() + link_keys.size() + revocations.size(); }
  void add(const Credentials& more);  // behind its own
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
  // Calls `with(node, standing)` for each.
  template <class With>
  void for_each(With with) const {
    for (const auto& part : nodes_)
      if (part)
        for (const auto& [node, standing] : *part) with(node, *standing);
  }
  std::size_t size() const { return size_; }

 private:
  friend class Admissions;
  // In 256 parts, by the first byte; those that did not change are shared with the snapshot before.
  template <class Key, class Value>
  using Parts = std::array<std::shared_ptr<const std::unordered_map<Key, Value>>, 256>;
  template <class Key, class Value>
  static const Value* in(const Parts<Key, Value>& parts, const Key& key) {
    const auto& part = parts[std::to_integer<std::size_t>(key.value[0])];
    if (!part) return nullptr;
    const auto found = part->find(key);
    return found == part->end() ? nullptr : &found->second;
  }
  Parts<NodeId, std::shared_ptr<const Standing>> nodes_;
  Parts<CurveKey, NodeId> by_curve_;
  std::size_t size_ = 0;
};

// What a node knows in brief: a number for each 256th of all nodes, by the first byte of their ids;
// equal where two know the same.
using CredentialsSummary = std::array<std::uint64_t, 256>;
Bytes encode_summary(const CredentialsSummary& summary);
Result<CredentialsSummary> decode_summary(ByteView bytes);

class RecoveryKey;

class Admissions {
 public:
  static constexpr std::size_t kLimit = 65536;          // of each kind; revocations by weight
  static constexpr std::size_t kLimitPerNode = 8;       // admissions, and revocations, of one node
  static constexpr std::size_t kLimitPerIssuer = 4096;  // weight of revocations by one node
  static constexpr std::size_t kLimitOfNews = 256;      // then all is written anew
  // Who was not seen for so long is forgotten, and comes back by a new token only.
  static constexpr std::chrono::hours kForgotten{24 * 30};

  // An empty list for `cluster` that lives in memory only.
  explicit Admissions(ClusterIdentity cluster);
  // The list in `state_directory`/admissions; an absent file is an empty list.
  // What is there was checked when it came: this node's disk is believed. Fails with corrupted
  // (damaged, or of another cluster), permission_denied, io_error.
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

  struct RevokeOrder {
    NodeId node;
    std::string reason = {};
    bool with_admitted = false;    // those that it let in are out, too
    bool restore_revoked = false;  // those that it had put out are back
  };
  struct PutOut {
    // Of the node; then, anew by this issuer, of members that are out by its word or by the word of one
    // that goes with it, which is void now.
    std::vector<Revocation> orders;
    std::size_t back = 0;  // such members that are not out any more
    // What the node orders from now on counts for nobody: it is not senior to the issuer.
    bool silenced = false;
  };
  // Durable when this returns, and nothing has happened where it fails: with permission_denied (the
  // issuer may not operate), not_found, invalid_argument (the issuer itself), resource_exhausted,
  // disk_full, io_error.
  Result<PutOut> revoke(const Identity& issuer, const RevokeOrder& order, WallTime now);

  // What a new start from the recovery key makes of the list.
  struct Refounding {
    Credentials added;
    std::vector<NodeId> put_out;   // as ordered
    std::vector<NodeId> dropped;   // members until now, whom those had let in
    std::vector<NodeId> restored;  // whom those had put out
    std::vector<NodeId> members;   // from now on, this one and the restored ones among them
    std::shared_ptr<const AdmissionSnapshot> list;  // as it is then
  };
  // Gives `self` all rights by the recovery key's word, which needs nobody else's, and puts out
  // `without`, whatever rights they had: whom they put out is back; whom they let in stays unless
  // `with_admitted`. Durable when this returns. `check`: only tells. Nothing has happened where it
  // fails: with permission_denied (the key is not this cluster's), invalid_argument (`self` is to be put
  // out), not_found, disk_full, io_error.
  struct RefoundOrder {
    NodeId self;
    SignKey sign_key;  // of self
    std::string name;  // of self
    std::vector<NodeId> without;
    bool with_admitted = false;
    bool check = false;
  };
  Result<Refounding> refound(const RecoveryKey& key, const RefoundOrder& order, WallTime now);

  struct Merge {
    Credentials added;                 // to be told to others
    std::size_t known = 0;             // were here already
    std::size_t waiting = 0;           // issuer or owner not known yet; kept until it is
    std::vector<std::string> refused;  // one sentence each
    // A signature was wrong. Nobody passes such a record on who checks what it hears: what came after
    // it was not looked at, and its teller need not be heard for a while.
    bool forged = false;
    // Who is not put out any more, as one without a word had ordered it.
    std::vector<NodeId> restored;
    // What a `teller` said counts, and is not on disk yet, though somebody was put out by it.
    std::optional<Error> unstored;
  };
  // Adds what verifies, in any order; durable when this returns, but for what a `teller` says of who came
  // in, which is so at the next store(). What is not proven yet waits, within bounds for each teller.
  // Without a teller fails as storing does.
  Result<Merge> merge(const Credentials& credentials, const NodeId& teller = {});
  // Makes durable what is not yet. Fails with io_error; it is tried again then.
  Result<void> store();

  Credentials all() const;
  std::size_t size() const { return count_ + link_keys_.size() + revoked_count_; }
  const ClusterIdentity& cluster() const { return cluster_; }

  // What proves the standing of these nodes: the chains of their issuers up to the founder, and
  // what puts out any of those.
  Credentials chain_of(std::span<const NodeId> nodes) const;
  CredentialsSummary summary() const;
  // All of one 256th of the nodes.
  Credentials bucket(std::size_t index) const;

  // These nodes, this one among them, are here now.
  void saw(std::span<const NodeId> nodes, WallTime now);
  // When a node was last seen; nothing of one that is not known.
  std::optional<WallTime> last_seen(const NodeId& node) const;
  // Forgets those that were not seen for kForgotten, and more where there is no room left; then
  // stores all. To be called now and then. Returns how many. Fails only as storing does.
  Result<std::size_t> forget_the_unseen(const NodeId& self, WallTime now);

  // The current allow-list. Any thread; never null.
  std::shared_ptr<const AdmissionSnapshot> snapshot() const { return snapshot_.read(); }

 private:
  // voided: refused by what is known now, which a later record may change.
  enum class Verdict { good, known, unproven, voided, bad, forged };
  struct Judged {
    Verdict verdict = Verdict::good;
    std::string why = {};
    bool is_refused() const { return verdict >= Verdict::voided; }
  };
  // An admission, and whether it leads back to the founder or the recovery key.
  struct Held {
    static constexpr std::uint32_t kNowhere = ~0u;
    Admission record;
    std::uint32_t depth =
        kNowhere;         // in admissions from there on, if only seniors had put anyone out
    bool counts = false;  // now
    bool is_senior_to(const Held& other) const {
      return std::tie(depth, record.issued, record.signature) <
             std::tie(other.depth, other.record.issued, other.record.signature);
    }
    bool gives(Rights rights, WallTime when) const {
      return (record.rights & rights) == rights && !record.expired(when);
    }
  };
  Judged judge(const Admission& admission) const;
  Judged judge(const LinkKey& link_key) const;
  Judged judge(const Revocation& revocation) const;
  const SignKey* key_of(const NodeId& issuer) const;
  const Held* seat_of(const NodeId& node, Rights rights, WallTime when) const;
  // The one of these that gives way to `order` where there is no room for both; null: none.
  const Revocation* most_junior(const std::vector<Revocation>& orders,
                                const Revocation& order) const;
  std::vector<const Revocation*> orders_over(const Held& seat) const;
  bool is_overruled(const Revocation& order, const Held& seat) const;
  bool overrules(const Revocation& order) const;
  std::uint32_t depth_of(const Admission& record) const;
  bool vouched_for(const Admission& record) const;
  bool leads_back(const Admission& record) const;
  bool is_recovery(const NodeId& issuer) const {
    return cluster_.has_recovery() && issuer == cluster_.recovery_id();
  }
  void settle();  // if what is signed by others may hang on what came since
  void settle_all();
  std::set<Signature> settle_seniority();
  void settle_counts();
  void drop_revocations(const std::function<bool(const Revocation&)>& is_void);
  Result<Merge> believe(const Credentials& stored);
  std::set<NodeId> members(WallTime now) const;
  std::vector<std::array<std::byte, 32>> still_named(const NodeId& node,
                                                     const std::vector<Revocation>& orders) const;
  Result<PutOut> revoke_here(const Identity& issuer, Revocation order, bool restore_revoked);
  Result<Refounding> refound_here(const RecoveryKey& key, const RefoundOrder& order, WallTime now);
  Revocation disown(const RecoveryKey& key, const NodeId& node, const RefoundOrder& order,
                    WallTime now) const;
  Result<void> add(const Credentials& made);
  void insert(const Admission& admission);
  void insert(const LinkKey& link_key);
  void insert(const Revocation& revocation);
  void take_weight(const Revocation& revocation);  // of one that goes
  void note(const Sighting& sighting);
  template <class Record>
  bool merge_some(std::vector<Record>& pending, std::vector<Record>& added, Merge& merge,
                  bool whole);
  void merge_all(Credentials& pending, Merge& merge, bool whole);
  std::map<NodeId, Credentials> take_awaited();
  void wait_for_more(const NodeId& teller, Credentials unproven);
  void append(Credentials& out, const NodeId& node) const;
  std::set<NodeId> needed_by(std::set<NodeId> open) const;
  std::shared_ptr<const Standing> standing_of(const NodeId& node) const;
  void publish();
  Result<void> store_all();
  Result<void> write_news(const Credentials& news);

  ClusterIdentity cluster_;
  std::optional<storage::DurableRecord> record_;  // none: memory only
  std::optional<storage::DurableRecord> news_record_;
  std::map<NodeId, std::vector<Held>> admissions_;
  std::map<NodeId, std::pair<LinkKey, CurveKey>> link_keys_;  // with what is made of it
  std::map<NodeId, std::vector<Revocation>> revocations_;
  std::map<NodeId, std::size_t> revoked_by_;  // their weight
  std::map<NodeId, WallTime> seen_;
  std::unordered_map<NodeId, std::size_t> admitted_by_;      // how many records
  std::set<NodeId> changed_;                                 // since the snapshot
  std::map<NodeId, std::map<NodeId, Credentials>> waiting_;  // by teller, and for whose admission
  std::set<NodeId> arrived_;   // who were admitted, since a look at it
  std::set<NodeId> restored_;  // since a look at it
  Credentials news_;           // since record_ was written
  std::size_t count_ = 0, revoked_count_ = 0, revoked_weight_ = 0;
  bool unsettled_ = false;
  bool dirty_ = false;     // something is not on disk yet
  bool awake_ = false;     // the time that this node was off is accounted for
  bool believes_ = false;  // while its own disk is read
  Published<AdmissionSnapshot> snapshot_;
};

}  // namespace gpunode::security
