// Wire and disk form of credentials, join records, answers and tokens (schemas/join.fbs).
#include "runtime/base/aligned_copy.hpp"
#include "runtime/base/wire_vector.hpp"
#include "runtime/security/detail/join_records.hpp"
#include "runtime/security/detail/layout.hpp"

#include "schemas/join_generated.h"

#include <algorithm>
#include <cstdint>

namespace gpunode::security {

namespace {

namespace wire = gpunode::wire::join;

constexpr std::size_t kMaxTables = 200'000;
constexpr std::size_t kMaxDetailBytes = 512;

using detail::to_ms;
using detail::to_time;

template <class Wire, std::size_t N>
Wire to_wire(const std::array<std::byte, N>& bytes) {
  return Wire(flatbuffers::span<const std::uint8_t, N>(
      reinterpret_cast<const std::uint8_t*>(bytes.data()), N));
}

template <class Wire, std::size_t N>
bool from_wire(const Wire* bytes, std::array<std::byte, N>& out) {
  if (bytes == nullptr) return false;
  std::memcpy(out.data(), bytes->value()->data(), N);
  return true;
}

bool from_wire(const flatbuffers::String* text, std::size_t limit, std::string& out) {
  if (text == nullptr) return true;
  if (text->size() > limit) return false;
  out.assign(text->data(), text->size());
  return true;
}

Error damaged(std::string_view what) {
  return {ErrorCode::corrupted, std::string(what) +
                                    " do not decode; they are damaged or of "
                                    "another version"};
}

// A Join with this one of its fields.
template <class Field>
Bytes finished(flatbuffers::FlatBufferBuilder& builder, void (wire::JoinBuilder::*add)(Field),
               Field field) {
  wire::JoinBuilder join(builder);
  (join.*add)(field);
  wire::FinishJoinBuffer(builder, join.Finish());
  return finished_bytes(builder);
}

// The verified root in an aligned copy of the bytes.
class Root {
 public:
  explicit Root(ByteView bytes) : copy_(bytes.begin(), bytes.end()) {
    auto* data = reinterpret_cast<const std::uint8_t*>(copy_.data());
    flatbuffers::Verifier verifier(data, copy_.size(), 8, kMaxTables);
    if (copy_.size() >= 8 && wire::VerifyJoinBuffer(verifier)) root_ = wire::GetJoin(data);
  }
  ~Root() { wipe(copy_); }
  // One of its fields; null where the bytes are no Join, or one of another field.
  template <class Field>
  const Field* get(const Field* (wire::Join::*field)() const) const {
    return root_ ? (root_->*field)() : nullptr;
  }

 private:
  Bytes copy_;
  const wire::Join* root_ = nullptr;
};

flatbuffers::Offset<wire::Admission> pack(flatbuffers::FlatBufferBuilder& builder,
                                          const Admission& admission) {
  auto cluster = to_wire<wire::Bytes16>(admission.cluster.value);
  auto node = to_wire<wire::Bytes32>(admission.node.value);
  auto sign_key = to_wire<wire::Bytes32>(admission.sign_key.value);
  auto issuer = to_wire<wire::Bytes32>(admission.issuer.value);
  auto signature = to_wire<wire::Bytes64>(admission.signature);
  return wire::CreateAdmission(
      builder, &cluster, &node, &sign_key, builder.CreateString(admission.name), admission.rights,
      to_ms(admission.issued), to_ms(admission.expires), &issuer, &signature);
}

bool unpack(const wire::Admission* packed, Admission& out) {
  return packed != nullptr && from_wire(packed->cluster(), out.cluster.value) &&
         from_wire(packed->node(), out.node.value) &&
         from_wire(packed->sign_key(), out.sign_key.value) &&
         from_wire(packed->name(), Admission::kMaxNameBytes, out.name) &&
         to_time(packed->issued_ms(), out.issued) && to_time(packed->expires_ms(), out.expires) &&
         from_wire(packed->issuer(), out.issuer.value) &&
         from_wire(packed->signature(), out.signature) && ((out.rights = packed->rights()), true);
}

flatbuffers::Offset<wire::LinkKey> pack(flatbuffers::FlatBufferBuilder& builder,
                                        const LinkKey& link_key) {
  auto node = to_wire<wire::Bytes32>(link_key.node.value);
  auto key = to_wire<wire::Bytes32>(link_key.key.value);
  auto by_node = to_wire<wire::Bytes64>(link_key.by_node);
  auto by_key = to_wire<wire::Bytes64>(link_key.by_key);
  return wire::CreateLinkKey(builder, &node, &key, link_key.epoch, &by_node, &by_key);
}

bool unpack(const wire::LinkKey* packed, LinkKey& out) {
  return packed != nullptr && from_wire(packed->node(), out.node.value) &&
         from_wire(packed->key(), out.key.value) && from_wire(packed->by_node(), out.by_node) &&
         from_wire(packed->by_key(), out.by_key) && ((out.epoch = packed->epoch()), true);
}

flatbuffers::Offset<wire::Revocation> pack(flatbuffers::FlatBufferBuilder& builder,
                                           const Revocation& revocation) {
  auto cluster = to_wire<wire::Bytes16>(revocation.cluster.value);
  auto node = to_wire<wire::Bytes32>(revocation.node.value);
  auto issuer = to_wire<wire::Bytes32>(revocation.issuer.value);
  auto signature = to_wire<wire::Bytes64>(revocation.signature);
  std::vector<wire::Bytes32> kept;
  for (const auto& one : revocation.kept) kept.push_back(to_wire<wire::Bytes32>(one));
  auto reason = builder.CreateString(revocation.reason);
  auto kept_records = builder.CreateVectorOfStructs(kept);
  return wire::CreateRevocation(builder, &cluster, &node, reason, kept_records,
                                to_ms(revocation.issued), &issuer, &signature);
}

bool unpack(const wire::Revocation* packed, Revocation& out) {
  if (packed == nullptr || !from_wire(packed->cluster(), out.cluster.value) ||
      !from_wire(packed->node(), out.node.value) ||
      !from_wire(packed->reason(), Revocation::kMaxReasonBytes, out.reason) ||
      !to_time(packed->issued_ms(), out.issued) || !from_wire(packed->issuer(), out.issuer.value) ||
      !from_wire(packed->signature(), out.signature))
    return false;
  if (packed->kept() == nullptr) return true;
  if (packed->kept()->size() > Revocation::kMaxKept) return false;
  for (const wire::Bytes32* one : *packed->kept())
    if (!from_wire(one, out.kept.emplace_back())) return false;
  return true;
}

// About what it takes on the wire, and never more.
std::size_t wire_bytes(const Admission& admission) {
  return 176 + admission.name.size();
}
std::size_t wire_bytes(const LinkKey&) {
  return 192;
}
std::size_t wire_bytes(const Revocation& revocation) {
  return 144 + revocation.reason.size() + 32 * revocation.kept.size();
}

std::size_t wire_bytes(const Sighting&) {
  return 40;
}

template <class Record, class Packed>
bool unpack(const flatbuffers::Vector<flatbuffers::Offset<Packed>>* packed, WireBudget& budget,
            std::vector<Record>& out) {
  if (packed == nullptr) return true;
  if (packed->size() > Admissions::kLimit) return false;
  for (const Packed* each : *packed)
    if (!unpack(each, out.emplace_back()) || !budget.take(wire_bytes(out.back()))) return false;
  return true;
}

flatbuffers::Offset<wire::Credentials> pack(flatbuffers::FlatBufferBuilder& builder,
                                            const Credentials& credentials) {
  const auto all = [&](const auto& records) {
    std::vector<decltype(pack(builder, records.front()))> packed;
    packed.reserve(records.size());
    for (const auto& record : records) packed.push_back(pack(builder, record));
    return builder.CreateVector(packed);
  };
  auto admissions = all(credentials.admissions);
  auto link_keys = all(credentials.link_keys);
  auto revocations = all(credentials.revocations);
  std::vector<wire::Sighting> seen;
  for (const Sighting& one : credentials.sightings)
    seen.emplace_back(to_wire<wire::Bytes32>(one.node.value), to_ms(one.at));
  auto sightings = builder.CreateVectorOfStructs(seen);
  return wire::CreateCredentials(builder, admissions, link_keys, revocations, sightings);
}

bool unpack(const flatbuffers::Vector<const wire::Sighting*>* packed, WireBudget& budget,
            std::vector<Sighting>& out) {
  if (packed == nullptr) return true;
  if (packed->size() > Admissions::kLimit || !budget.take(packed->size() * sizeof(wire::Sighting)))
    return false;
  for (const wire::Sighting* each : *packed) {
    Sighting& one = out.emplace_back();
    if (!from_wire(&each->node(), one.node.value) || !to_time(each->at_ms(), one.at)) return false;
  }
  return true;
}

bool unpack(const wire::Credentials* packed, std::size_t bytes, Credentials& out) {
  WireBudget budget(bytes);
  return packed != nullptr && unpack(packed->admissions(), budget, out.admissions) &&
         unpack(packed->link_keys(), budget, out.link_keys) &&
         unpack(packed->revocations(), budget, out.revocations) &&
         unpack(packed->sightings(), budget, out.sightings);
}

// A guess at how many bytes they take.
std::size_t bytes_of(const Credentials& credentials) {
  return 256 + credentials.size() * 320;
}

using PackedTexts = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;

bool unpack(const PackedTexts* packed, std::size_t limit, std::size_t text_limit,
            std::vector<std::string>& out) {
  if (packed == nullptr) return true;
  if (packed->size() > limit) return false;
  for (const flatbuffers::String* text : *packed) {
    if (!from_wire(text, text_limit, out.emplace_back())) return false;
  }
  return true;
}

bool unpack(const wire::Token* packed, TokenId& id, StoredToken& out) {
  if (packed == nullptr || packed->proof() == nullptr || !from_wire(packed->id(), id) ||
      !to_time(packed->expires_ms(), out.expires)) {
    return false;
  }
  std::memcpy(out.proof.writable().data(), packed->proof()->value()->data(), 32);
  out.uses = packed->uses();
  out.used = packed->used();
  out.rights = packed->rights();
  if (!from_wire(packed->label(), JoinToken::kMaxLabelBytes, out.label)) return false;
  if (packed->used_by() == nullptr) return true;
  for (const wire::Bytes32* packed_node : *packed->used_by()) {
    NodeId node;
    if (!from_wire(packed_node, node.value)) return false;
    out.used_by.push_back(node);
  }
  out.used = std::max(out.used, static_cast<std::uint32_t>(out.used_by.size()));
  return true;
}

}  // namespace

std::vector<Credentials> Credentials::parts(std::size_t most_bytes) const {
  std::vector<Credentials> parts(1);
  std::size_t used = 0;
  const auto place = [&](const auto& records, auto of) {
    for (const auto& record : records) {
      const std::size_t bytes = wire_bytes(record);
      if (used > 0 && used + bytes > most_bytes) {
        parts.emplace_back();
        used = 0;
      }
      used += bytes;
      (parts.back().*of).push_back(record);
    }
  };
  place(revocations, &Credentials::revocations);
  place(admissions, &Credentials::admissions);
  place(link_keys, &Credentials::link_keys);
  place(sightings, &Credentials::sightings);
  return parts;
}

Bytes encode_credentials(const Credentials& credentials) {
  flatbuffers::FlatBufferBuilder builder(bytes_of(credentials));
  return finished(builder, &wire::JoinBuilder::add_credentials, pack(builder, credentials));
}

Result<Credentials> decode_credentials(ByteView bytes) {
  Root root(bytes);
  Credentials credentials;
  if (!unpack(root.get(&wire::Join::credentials), bytes.size(), credentials))
    return damaged("credentials");
  return credentials;
}

namespace detail {

bool in_bounds(const JoinRecord& record) {
  auto short_texts = [](const std::vector<std::string>& texts, std::size_t count,
                        std::size_t bytes) {
    return texts.size() <= count &&
           std::ranges::all_of(texts, [&](const auto& text) { return text.size() <= bytes; });
  };
  return record.name.size() <= Admission::kMaxNameBytes &&
         short_texts(record.advertised, JoinRecord::kMaxEndpoints, JoinRecord::kMaxEndpointBytes) &&
         short_texts(record.labels, JoinRecord::kMaxLabels, JoinRecord::kMaxLabelBytes);
}

Bytes encode_record(const JoinRecord& record) {
  flatbuffers::FlatBufferBuilder builder(1024);
  auto packed = wire::CreateJoinRecord(
      builder, builder.CreateString(record.name), builder.CreateVectorOfStrings(record.advertised),
      record.must_be_reachable, builder.CreateVectorOfStrings(record.labels));
  return finished(builder, &wire::JoinBuilder::add_record, packed);
}

Result<JoinRecord> decode_record(ByteView bytes) {
  Root root(bytes);
  const wire::JoinRecord* packed = root.get(&wire::Join::record);
  JoinRecord record;
  if (packed == nullptr || !from_wire(packed->name(), Admission::kMaxNameBytes, record.name) ||
      !unpack(packed->advertised(), JoinRecord::kMaxEndpoints, JoinRecord::kMaxEndpointBytes,
              record.advertised) ||
      !unpack(packed->labels(), JoinRecord::kMaxLabels, JoinRecord::kMaxLabelBytes,
              record.labels)) {
    return damaged("a joiner's particulars");
  }
  record.must_be_reachable = packed->must_be_reachable();
  return record;
}

Bytes encode_answer_body(const JoinAnswer& answer) {
  flatbuffers::FlatBufferBuilder builder(4096 + answer.members.size() +
                                         bytes_of(answer.credentials));
  auto detail_text = builder.CreateString(answer.detail.substr(0, kMaxDetailBytes));
  bool admitted = answer.refusal == JoinRefusal::none;
  auto admission =
      admitted ? pack(builder, answer.admission) : flatbuffers::Offset<wire::Admission>();
  auto credentials = pack(builder, answer.credentials);
  auto members = builder.CreateVector(reinterpret_cast<const std::uint8_t*>(answer.members.data()),
                                      answer.members.size());
  auto packed =
      wire::CreateJoinAnswer(builder, static_cast<std::uint16_t>(answer.refusal), detail_text,
                             answer.reachable, admission, credentials, members);
  return finished(builder, &wire::JoinBuilder::add_answer, packed);
}

Result<JoinAnswer> decode_answer_body(ByteView bytes) {
  Root root(bytes);
  const wire::JoinAnswer* packed = root.get(&wire::Join::answer);
  JoinAnswer answer;
  if (packed == nullptr || !from_wire(packed->detail(), kMaxDetailBytes, answer.detail)) {
    return damaged("a join answer's parts");
  }
  answer.refusal = static_cast<JoinRefusal>(packed->refusal());
  answer.reachable = packed->reachable();
  if (answer.refusal != JoinRefusal::none) return answer;
  if (!unpack(packed->admission(), answer.admission) ||
      !unpack(packed->credentials(), bytes.size(), answer.credentials)) {
    return damaged("a join answer's credentials");
  }
  if (packed->members() != nullptr) {
    auto* data = reinterpret_cast<const std::byte*>(packed->members()->data());
    answer.members.assign(data, data + packed->members()->size());
  }
  return answer;
}

Bytes encode_tokens(const std::map<TokenId, StoredToken>& tokens) {
  flatbuffers::FlatBufferBuilder builder(1024);
  std::vector<flatbuffers::Offset<wire::Token>> packed;
  for (const auto& [token_id, token] : tokens) {
    std::vector<wire::Bytes32> used_by;
    for (const NodeId& node : token.used_by) used_by.push_back(to_wire<wire::Bytes32>(node.value));
    auto nodes = builder.CreateVectorOfStructs(used_by);
    auto label = builder.CreateString(token.label);
    auto id = to_wire<wire::Bytes16>(token_id);
    std::array<std::byte, 32> proof_bytes;
    std::memcpy(proof_bytes.data(), token.proof.view().data(), 32);
    auto proof = to_wire<wire::Bytes32>(proof_bytes);
    packed.push_back(wire::CreateToken(builder, &id, &proof, to_ms(token.expires), token.uses,
                                       nodes, token.rights, label, token.used));
    wipe(proof_bytes);
  }
  Bytes bytes = finished(builder, &wire::JoinBuilder::add_tokens, builder.CreateVector(packed));
  wipe(
      MutableByteView(reinterpret_cast<std::byte*>(builder.GetBufferPointer()), builder.GetSize()));
  return bytes;
}

Result<std::map<TokenId, StoredToken>> decode_tokens(ByteView bytes) {
  Root root(bytes);
  const auto* packed = root.get(&wire::Join::tokens);
  if (packed == nullptr) return damaged("join tokens");
  std::map<TokenId, StoredToken> tokens;
  for (const wire::Token* each : *packed) {
    TokenId id;
    StoredToken token;
    if (!unpack(each, id, token)) return damaged("join tokens");
    tokens[id] = std::move(token);
  }
  return tokens;
}

}  // namespace detail
}  // namespace gpunode::security
