#include "runtime/security/audit_witness.hpp"

#include "runtime/base/log.hpp"
#include "runtime/security/detail/layout.hpp"

namespace gpunode::security {
namespace {

constexpr std::string_view kPurpose = "gpunode audit told 1";
constexpr storage::RecordFormat kFormat{{'G', 'P', 'A', 'W'}, 1};

Bytes statement_of(const AuditHead& head) {
  detail::LayoutWriter writer;
  writer.u64(head.entries);
  writer.raw(head.last);
  return writer.take();
}

std::vector<AuditField> lengths(std::uint64_t had, std::uint64_t has) {
  return {{"had", std::to_string(had)}, {"has", std::to_string(has)}};
}

}  // namespace

AuditWitness AuditWitness::open(storage::FileSystem& files, const storage::Path& state_directory) {
  AuditWitness witness({files, state_directory / "audit.peers", kFormat});
  const auto stored = witness.record_.load();
  if (!stored) {
    log::warning("security",
                 "what is known of the others' audit logs is lost: " + stored.error().message());
    return witness;
  }
  if (!*stored) return witness;
  detail::LayoutReader reader(**stored);
  while (reader.ok() && !reader.at_end()) {
    NodeId node;
    node.value = reader.array<sizeof node.value>();
    SignedHead head;
    head.head = {reader.u64(), reader.array<32>()};
    head.signature = reader.array<64>();
    if (reader.ok()) witness.known_[node] = head;
  }
  return witness;
}

Bytes AuditWitness::encode(const NodeId& owner, const SignedHead& head) {
  detail::LayoutWriter writer;
  writer.raw(owner.value);
  writer.raw(statement_of(head.head));
  writer.raw(head.signature);
  return writer.take();
}

Bytes AuditWitness::told(const AuditLog& log, const Identity& identity) {
  const AuditHead& head = log.head();
  return encode(identity.id(), {head, identity.sign(kPurpose, statement_of(head))});
}

AuditWitness::Heard AuditWitness::on_told(const NodeId& from, const SignKey& key, ByteView message,
                                          const AuditLog& log, const Identity& identity) {
  detail::LayoutReader reader(message);
  NodeId owner;
  owner.value = reader.array<sizeof owner.value>();
  SignedHead head;
  head.head = {reader.u64(), reader.array<32>()};
  head.signature = reader.array<64>();
  const bool own = owner == identity.id();
  if (!reader.ok() || !reader.at_end() || (!own && owner != from) ||
      !verify(own ? identity.sign_key() : key, kPurpose, statement_of(head.head), head.signature))
    return {};
  return own ? on_own(from, head.head, log) : on_theirs(from, head);
}

AuditWitness::Heard AuditWitness::on_own(const NodeId& from, const AuditHead& head,
                                         const AuditLog& log) {
  if (log.holds(head) || !found_.insert(from).second) return {};
  Heard heard{{}, "audit_rolled_back", lengths(head.entries, log.entries())};
  heard.fields.push_back({"shown_by", from.text()});
  return heard;
}

AuditWitness::Heard AuditWitness::on_theirs(const NodeId& from, const SignedHead& head) {
  const auto known = known_.find(from);
  if (known == known_.end()) {
    known_[from] = head;
    changed_ = true;
    return {};
  }
  const AuditHead before = known->second.head;
  if (before == head.head) return {};
  Heard heard;
  heard.answer = encode(from, known->second);
  known->second = head;
  changed_ = true;
  if (head.head.entries > before.entries || !found_.insert(from).second) return heard;
  heard.event = "peer_audit_rolled_back";
  heard.fields = lengths(before.entries, head.head.entries);
  heard.fields.push_back({"node", from.text()});
  return heard;
}

Result<void> AuditWitness::store() {
  if (!changed_) return {};
  Bytes bytes;
  for (const auto& [node, head] : known_) {
    const Bytes one = encode(node, head);
    bytes.insert(bytes.end(), one.begin(), one.end());
  }
  if (auto stored = record_.store(bytes); !stored) return stored.error().within("audit log");
  changed_ = false;
  return {};
}

}  // namespace gpunode::security
