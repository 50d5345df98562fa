#include "runtime/membership/membership_codec.hpp"

#include "runtime/base/aligned_copy.hpp"
#include "runtime/base/wire_vector.hpp"
#include "schemas/membership_generated.h"

namespace gpunode::membership {

namespace {

namespace wire = gpunode::wire::membership;
using Builder = flatbuffers::FlatBufferBuilder;
template <class T>
using Offset = flatbuffers::Offset<T>;
template <class T>
using Vector = flatbuffers::Vector<T>;

template <class Key>
wire::Id to_wire(const Key& key) {
  return wire::Id(flatbuffers::make_span(reinterpret_cast<const std::uint8_t(&)[32]>(key)));
}

NodeId node_of(const wire::Id* id) {
  return NodeId{array_of(id)};
}

Offset<Vector<const wire::Id*>> write_ids(Builder& builder, const std::vector<NodeId>& ids) {
  std::vector<wire::Id> list;
  for (const NodeId& id : ids) list.push_back(to_wire(id.value));
  return list.empty() ? 0 : builder.CreateVectorOfStructs(list);
}

Offset<wire::Record> write_record(Builder& builder, const MemberRecord& record) {
  std::vector<Offset<wire::Label>> labels;
  for (const auto& [key, value] : record.labels)
    labels.push_back(
        wire::CreateLabel(builder, builder.CreateString(key), builder.CreateString(value)));
  const auto name = builder.CreateString(record.name);
  const auto control = builder.CreateVectorOfStrings(record.control_endpoints);
  const auto bulk = builder.CreateVectorOfStrings(record.bulk_endpoints);
  const auto join = builder.CreateVectorOfStrings(record.join_endpoints);
  const auto label_list = builder.CreateVector(labels);
  const auto signature = builder.CreateVector(
      reinterpret_cast<const std::uint8_t*>(record.signature.data()), record.signature.size());
  const wire::Id id = to_wire(record.id.value), sign = to_wire(record.sign_key);
  return wire::CreateRecord(builder, &id, name, record.incarnation.boot, record.incarnation.counter,
                            control, bulk, join, &sign, label_list, record.dial_only, record.left,
                            signature);
}

Offset<wire::Rumor> write_rumor(Builder& builder, const Rumor& rumor) {
  const auto observers = write_ids(builder, rumor.observers);
  const auto refused_by = write_ids(builder, rumor.refused_by);
  const Offset<wire::Record> record =
      rumor.record ? write_record(builder, *rumor.record) : Offset<wire::Record>(0);
  const wire::Id subject = to_wire(rumor.subject.value);
  return wire::CreateRumor(builder, static_cast<std::uint8_t>(rumor.state), &subject,
                           rumor.incarnation.boot, rumor.incarnation.counter, observers, refused_by,
                           record);
}

bool read_ids(const Vector<const wire::Id*>* list, std::vector<NodeId>& ids) {
  if (!list) return true;
  if (list->size() > kMaxObservers) return false;
  for (const wire::Id* id : *list) ids.push_back(node_of(id));
  return true;
}

bool read_text(const flatbuffers::String* in, std::size_t limit, std::string& text) {
  if (!in) return true;
  if (in->size() > limit) return false;
  text = in->str();
  return true;
}

bool read_texts(const Vector<Offset<flatbuffers::String>>* list, std::vector<std::string>& texts) {
  if (!list) return true;
  if (list->size() > kMaxEndpoints) return false;
  for (const auto* text : *list)
    if (!read_text(text, kMaxEndpointBytes, texts.emplace_back())) return false;
  return true;
}

bool read_record(const wire::Record& in, MemberRecord& record) {
  if (!in.id() || !in.sign_key()) return false;
  record.id = node_of(in.id());
  record.incarnation = {in.boot(), in.counter()};
  if (!read_text(in.name(), kMaxNameBytes, record.name) ||
      !read_texts(in.control_endpoints(), record.control_endpoints) ||
      !read_texts(in.bulk_endpoints(), record.bulk_endpoints) ||
      !read_texts(in.join_endpoints(), record.join_endpoints))
    return false;
  record.sign_key = array_of(in.sign_key());
  if (in.labels()) {
    if (in.labels()->size() > kMaxLabels) return false;
    for (const wire::Label* label : *in.labels()) {
      if (!label->key() || !label->value()) return false;
      if (label->key()->size() > kMaxLabelBytes || label->value()->size() > kMaxLabelBytes)
        return false;
      if (!record.labels.emplace(label->key()->str(), label->value()->str()).second) return false;
    }
  }
  record.dial_only = in.dial_only();
  record.left = in.left();
  if (in.signature()) {
    if (in.signature()->size() > kMaxSignatureBytes) return false;
    record.signature = to_bytes(
        {reinterpret_cast<const std::byte*>(in.signature()->data()), in.signature()->size()});
  }
  return well_formed(record);
}

bool read_rumor(const wire::Rumor& in, Rumor& rumor) {
  if (in.state() > static_cast<std::uint8_t>(PeerHealth::left) || !in.subject()) return false;
  rumor.state = static_cast<PeerHealth>(in.state());
  rumor.subject = node_of(in.subject());
  rumor.incarnation = {in.boot(), in.counter()};
  if (!read_ids(in.observers(), rumor.observers) || !read_ids(in.refused_by(), rumor.refused_by))
    return false;
  if (!in.record()) return true;
  rumor.record.emplace();
  return read_record(*in.record(), *rumor.record) && rumor.record->id == rumor.subject;
}

constexpr flatbuffers::uoffset_t kMaxDepth = 6;
constexpr flatbuffers::uoffset_t kMaxTables = 1 + kMaxRumors * (2 + kMaxLabels);

}  // namespace

Bytes encode(const Message& message) {
  Builder builder(1024);
  std::vector<Offset<wire::Rumor>> rumors;
  for (const Rumor& rumor : message.rumors) rumors.push_back(write_rumor(builder, rumor));
  const auto list = builder.CreateVector(rumors);
  const wire::Id target = to_wire(message.target.value);
  wire::FinishMessageBuffer(
      builder, wire::CreateMessage(builder, static_cast<std::uint8_t>(message.kind),
                                   message.sequence, &target, message.reply_wanted, list));
  return finished_bytes(builder);
}

Result<Message> decode(ByteView bytes) {
  if (bytes.size() > kMaxWireBytes || bytes.size() < 12)
    return {ErrorCode::resource_exhausted, "membership message of a size that nobody sends"};
  const AlignedCopy copy(bytes);
  const std::uint8_t* data = copy.data();
  flatbuffers::Verifier verifier(data, bytes.size(), kMaxDepth, kMaxTables);
  if (!wire::MessageBufferHasIdentifier(data) || !wire::VerifyMessageBuffer(verifier))
    return {ErrorCode::corrupted, "not a membership message"};
  const wire::Message& in = *wire::GetMessage(data);
  if (in.kind() > static_cast<std::uint8_t>(MessageKind::sync))
    return {ErrorCode::corrupted, "membership message of an unknown kind"};
  Message message;
  message.kind = static_cast<MessageKind>(in.kind());
  message.sequence = in.sequence();
  message.target = node_of(in.target());
  message.reply_wanted = in.reply_wanted();
  if (!in.rumors()) return message;
  if (in.rumors()->size() > kMaxRumors)
    return {ErrorCode::resource_exhausted, "membership message with too many rumours"};
  for (const wire::Rumor* rumor : *in.rumors())
    if (!read_rumor(*rumor, message.rumors.emplace_back()))
      return {ErrorCode::corrupted, "membership message with a rumour out of bounds"};
  return message;
}

Bytes encode_record(const MemberRecord& record) {
  return encode({.rumors = {{PeerHealth::alive, record.id, record.incarnation, {}, {}, record}}});
}

Result<MemberRecord> decode_record(ByteView bytes) {
  auto message = decode(bytes);
  if (!message) return message.error().within("member record");
  if (message->rumors.size() != 1 || !message->rumors[0].record)
    return {ErrorCode::corrupted, "not a member record"};
  return std::move(*message->rumors[0].record);
}

}  // namespace gpunode::membership
