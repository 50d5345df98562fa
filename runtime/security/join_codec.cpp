// Wire and disk form of admissions, join records, answers and tokens (schemas/join.fbs).
#include "runtime/security/detail/join_records.hpp"

#include "schemas/join_generated.h"

#include <algorithm>
#include <cstdint>

namespace gpunode::security {

namespace {

namespace wire = gpunode::wire::join;

constexpr std::size_t kMaxTables = 200'000;
constexpr std::size_t kMaxDetailBytes = 512;

std::int64_t to_ms(WallTime time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

// Times beyond the year 2248 or before 1970 are nonsense and would overflow a nanosecond count.
bool to_time(std::int64_t ms, WallTime& time) {
  if (ms < 0 || ms > (std::int64_t{1} << 43)) return false;
  time = WallTime(std::chrono::milliseconds(ms));
  return true;
}

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

Bytes finished(flatbuffers::FlatBufferBuilder& builder, flatbuffers::Offset<wire::Join> root) {
  builder.Finish(root, wire::JoinIdentifier());
  auto* data = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return Bytes(data, data + builder.GetSize());
}

// The verified root in an aligned copy of the bytes.
class Root {
 public:
  explicit Root(ByteView bytes) : copy_(bytes.begin(), bytes.end()) {
    auto* data = reinterpret_cast<const std::uint8_t*>(copy_.data());
    flatbuffers::Verifier verifier(data, copy_.size(), 8, kMaxTables);
    if (copy_.size() >= 8 && verifier.VerifyBuffer<wire::Join>(wire::JoinIdentifier())) {
      root_ = wire::GetJoin(data);
    }
  }
  ~Root() { wipe(copy_); }
  const wire::Join* get() const { return root_; }

 private:
  Bytes copy_;
  const wire::Join* root_ = nullptr;
};

flatbuffers::Offset<wire::Admission> pack(flatbuffers::FlatBufferBuilder& builder,
                                          const Admission& admission) {
  auto cluster = to_wire<wire::Bytes16>(admission.cluster.value);
  auto node = to_wire<wire::Bytes32>(admission.node.value);
  auto sign_key = to_wire<wire::Bytes32>(admission.sign_key.value);
  auto curve_key = to_wire<wire::Bytes32>(admission.curve_key.value);
  auto issuer = to_wire<wire::Bytes32>(admission.issuer.value);
  auto signature = to_wire<wire::Bytes64>(admission.signature);
  return wire::CreateAdmission(
      builder, &cluster, &node, &sign_key, &curve_key, builder.CreateString(admission.name),
      admission.rights, to_ms(admission.issued), to_ms(admission.expires), &issuer, &signature);
}

bool unpack(const wire::Admission* packed, Admission& out) {
  return packed != nullptr && from_wire(packed->cluster(), out.cluster.value) &&
         from_wire(packed->node(), out.node.value) &&
         from_wire(packed->sign_key(), out.sign_key.value) &&
         from_wire(packed->curve_key(), out.curve_key.value) &&
         from_wire(packed->name(), Admission::kMaxNameBytes, out.name) &&
         to_time(packed->issued_ms(), out.issued) && to_time(packed->expires_ms(), out.expires) &&
         from_wire(packed->issuer(), out.issuer.value) &&
         from_wire(packed->signature(), out.signature) && ((out.rights = packed->rights()), true);
}

using PackedAdmissions = flatbuffers::Vector<flatbuffers::Offset<wire::Admission>>;

flatbuffers::Offset<PackedAdmissions> pack(flatbuffers::FlatBufferBuilder& builder,
                                           const std::vector<Admission>& admissions) {
  std::vector<flatbuffers::Offset<wire::Admission>> packed;
  packed.reserve(admissions.size());
  for (const Admission& admission : admissions) packed.push_back(pack(builder, admission));
  return builder.CreateVector(packed);
}

bool unpack(const PackedAdmissions* packed, std::vector<Admission>& out) {
  if (packed == nullptr) return true;
  if (packed->size() > Admissions::kLimit) return false;
  out.resize(packed->size());
  for (flatbuffers::uoffset_t index = 0; index < packed->size(); ++index) {
    if (!unpack(packed->Get(index), out[index])) return false;
  }
  return true;
}

using PackedTexts = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;

bool unpack(const PackedTexts* packed, std::size_t limit, std::size_t text_limit,
            std::vector<std::string>& out) {
  if (packed == nullptr) return true;
  if (packed->size() > limit) return false;
  out.resize(packed->size());
  for (flatbuffers::uoffset_t index = 0; index < packed->size(); ++index) {
    if (!from_wire(packed->Get(index), text_limit, out[index])) return false;
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
  if (packed->used_by() == nullptr) return true;
  for (flatbuffers::uoffset_t index = 0; index < packed->used_by()->size(); ++index) {
    NodeId node;
    if (!from_wire(packed->used_by()->Get(index), node.value)) return false;
    out.used_by.insert(node);
  }
  return true;
}

}  // namespace

Bytes encode_admissions(const std::vector<Admission>& admissions) {
  flatbuffers::FlatBufferBuilder builder(256 + admissions.size() * 320);
  auto packed = pack(builder, admissions);
  wire::JoinBuilder join(builder);
  join.add_admissions(packed);
  return finished(builder, join.Finish());
}

Result<std::vector<Admission>> decode_admissions(ByteView bytes) {
  Root root(bytes);
  std::vector<Admission> admissions;
  if (root.get() == nullptr || root.get()->admissions() == nullptr ||
      !unpack(root.get()->admissions(), admissions)) {
    return damaged("admissions");
  }
  return admissions;
}

namespace detail {

bool in_bounds(const JoinRecord& record) {
  auto short_texts = [](const std::vector<std::string>& texts, std::size_t count,
                        std::size_t bytes) {
    return texts.size() <= count &&
           std::all_of(texts.begin(), texts.end(),
                       [&](const std::string& text) { return text.size() <= bytes; });
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
  wire::JoinBuilder join(builder);
  join.add_record(packed);
  return finished(builder, join.Finish());
}

Result<JoinRecord> decode_record(ByteView bytes) {
  Root root(bytes);
  const wire::JoinRecord* packed = root.get() == nullptr ? nullptr : root.get()->record();
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
                                         answer.admissions.size() * 320);
  auto detail_text = builder.CreateString(answer.detail);
  bool admitted = answer.refusal == JoinRefusal::none;
  auto admission =
      admitted ? pack(builder, answer.admission) : flatbuffers::Offset<wire::Admission>();
  auto admissions = pack(builder, answer.admissions);
  auto members = builder.CreateVector(reinterpret_cast<const std::uint8_t*>(answer.members.data()),
                                      answer.members.size());
  auto packed =
      wire::CreateJoinAnswer(builder, static_cast<std::uint16_t>(answer.refusal), detail_text,
                             answer.reachable, admission, admissions, members);
  wire::JoinBuilder join(builder);
  join.add_answer(packed);
  return finished(builder, join.Finish());
}

Result<JoinAnswer> decode_answer_body(ByteView bytes) {
  Root root(bytes);
  const wire::JoinAnswer* packed = root.get() == nullptr ? nullptr : root.get()->answer();
  JoinAnswer answer;
  if (packed == nullptr || !from_wire(packed->detail(), kMaxDetailBytes, answer.detail)) {
    return damaged("a join answer's parts");
  }
  answer.refusal = static_cast<JoinRefusal>(packed->refusal());
  answer.reachable = packed->reachable();
  if (answer.refusal != JoinRefusal::none) return answer;
  if (!unpack(packed->admission(), answer.admission) ||
      !unpack(packed->admissions(), answer.admissions)) {
    return damaged("a join answer's admissions");
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
    auto id = to_wire<wire::Bytes16>(token_id);
    std::array<std::byte, 32> proof_bytes;
    std::memcpy(proof_bytes.data(), token.proof.view().data(), 32);
    auto proof = to_wire<wire::Bytes32>(proof_bytes);
    packed.push_back(
        wire::CreateToken(builder, &id, &proof, to_ms(token.expires), token.uses, nodes));
    wipe(proof_bytes);
  }
  auto all = builder.CreateVector(packed);
  wire::JoinBuilder join(builder);
  join.add_tokens(all);
  Bytes bytes = finished(builder, join.Finish());
  wipe(
      MutableByteView(reinterpret_cast<std::byte*>(builder.GetBufferPointer()), builder.GetSize()));
  return bytes;
}

Result<std::map<TokenId, StoredToken>> decode_tokens(ByteView bytes) {
  Root root(bytes);
  if (root.get() == nullptr || root.get()->tokens() == nullptr) return damaged("join tokens");
  std::map<TokenId, StoredToken> tokens;
  for (flatbuffers::uoffset_t index = 0; index < root.get()->tokens()->size(); ++index) {
    TokenId id;
    StoredToken token;
    if (!unpack(root.get()->tokens()->Get(index), id, token)) return damaged("join tokens");
    tokens[id] = std::move(token);
  }
  return tokens;
}

}  // namespace detail
}  // namespace gpunode::security
