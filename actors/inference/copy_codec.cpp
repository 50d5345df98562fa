#include "actors/inference/copy_codec.hpp"

#include <algorithm>
#include <bit>

#include "runtime/base/aligned_copy.hpp"
#include "runtime/base/wire_vector.hpp"
#include "schemas/model_copy_generated.h"

namespace gpunode::inference {

namespace wire = gpunode::wire::model_copy;
using checkpoint::ModelContent;

namespace {

using Builder = flatbuffers::FlatBufferBuilder;
constexpr std::size_t kLimitBytes = 16u << 20;  // of which 16 TB of a model take the most
constexpr std::size_t kMostSettings = 256, kMostTexts = 16, kLongestName = 256;
constexpr std::uint64_t kMostTextBytes = 256u << 20;

wire::Hash256 to_wire(const storage::Sha256& hash) {
  return std::bit_cast<wire::Hash256>(hash.value);
}
storage::Sha256 from_wire(const wire::Hash256& hash) {
  return {std::bit_cast<std::array<std::byte, 32>>(hash)};
}

flatbuffers::Offset<void> written(Builder& builder, const ModelContent& content) {
  std::vector<flatbuffers::Offset<wire::Setting>> settings;
  for (const auto& [key, value] : content.settings)
    settings.push_back(
        wire::CreateSetting(builder, builder.CreateString(key), builder.CreateString(value)));
  std::vector<flatbuffers::Offset<wire::Text>> texts;
  for (const ModelContent::Text& one : content.texts)
    texts.push_back(wire::CreateText(builder, builder.CreateString(one.name), one.bytes));
  std::vector<wire::Hash256> pieces;
  for (const storage::Sha256& one : content.pieces) pieces.push_back(to_wire(one));
  const auto kind = builder.CreateString(content.kind);
  const auto format = builder.CreateString(std::string(ops::to_string(content.format)));
  const auto all_settings = builder.CreateVector(settings);
  const auto all_texts = builder.CreateVector(texts);
  const auto all_pieces = builder.CreateVectorOfStructs(pieces);
  return wire::CreateContent(builder, kind, all_settings, format, content.step, content.image_bytes,
                             all_texts, all_pieces)
      .Union();
}

template <class Table>
bool all_present(const flatbuffers::Vector<flatbuffers::Offset<Table>>* items, std::size_t most) {
  return !items || (items->size() <= most &&
                    std::ranges::all_of(*items, [](const Table* item) { return item != nullptr; }));
}

std::size_t size_of(const flatbuffers::String* text) {
  return text ? text->size() : 0;
}

// Nothing: it is none, or its parts lie in one another and would take more memory than was sent.
std::optional<ModelContent> content_of(const wire::Content& in, WireBudget budget) {
  const auto format = ops::weight_format_of(flatbuffers::GetString(in.format()));
  if (!format || !all_present(in.settings(), kMostSettings) || !all_present(in.texts(), kMostTexts))
    return {};
  ModelContent content{.kind = flatbuffers::GetString(in.kind()),
                       .format = *format,
                       .step = in.step(),
                       .image_bytes = in.image_bytes()};
  if (in.settings())
    for (const wire::Setting* one : *in.settings()) {
      if (!budget.take(size_of(one->key()) + size_of(one->value()))) return {};
      content.settings[flatbuffers::GetString(one->key())] = flatbuffers::GetString(one->value());
    }
  std::uint64_t left = kMostTextBytes;
  if (in.texts())
    for (const wire::Text* one : *in.texts()) {
      if (!budget.take(size_of(one->name()))) return {};
      content.texts.push_back({flatbuffers::GetString(one->name()), one->bytes()});
      if (one->bytes() > left || content.texts.back().name.size() > kLongestName) return {};
      left -= one->bytes();
    }
  const std::size_t pieces = in.pieces() ? in.pieces()->size() : 0;
  // Before any number is multiplied.
  if (content.image_bytes > std::uint64_t{pieces} * ModelContent::kPieceBytes) return {};
  if (content.image_pieces() + content.text_pieces() != pieces) return {};
  for (std::size_t at = 0; at < pieces; ++at)
    content.pieces.push_back(from_wire(*in.pieces()->Get(static_cast<flatbuffers::uoffset_t>(at))));
  return content;
}

}  // namespace

Bytes encode_copy(const CopyMessage& message) {
  Builder builder(1024);
  flatbuffers::Offset<void> body;
  auto kind = wire::Body::Ask;
  if (const auto* ask = std::get_if<CopyAsk>(&message)) {
    const wire::Hash256 digest = to_wire(ask->digest);
    body =
        wire::CreateAsk(builder, &digest, ask->piece ? static_cast<std::int64_t>(*ask->piece) : -1)
            .Union();
  } else {
    kind = wire::Body::Content;
    body = written(builder, std::get<ModelContent>(message));
  }
  builder.Finish(wire::CreateEnvelope(builder, kind, body), wire::EnvelopeIdentifier());
  return finished_bytes(builder);
}

Result<CopyMessage> decode_copy(ByteView bytes) {
  const Error corrupted{ErrorCode::corrupted, "no question for a model's bytes, nor its answer"};
  if (bytes.size() > kLimitBytes || bytes.size() < 8) return corrupted;
  AlignedCopy copy(bytes);
  flatbuffers::Verifier verifier(copy.data(), copy.size(), 8, 2 * (kMostSettings + kMostTexts));
  if (!wire::VerifyEnvelopeBuffer(verifier)) return corrupted;
  const wire::Envelope* envelope = wire::GetEnvelope(copy.data());
  if (const auto* in = envelope->body_as_Ask()) {
    CopyAsk ask{from_wire(*in->digest()), {}};
    if (in->piece() < -1) return corrupted;
    if (in->piece() >= 0) ask.piece = static_cast<std::size_t>(in->piece());
    return CopyMessage(ask);
  }
  const auto* in = envelope->body_as_Content();
  auto content = in ? content_of(*in, WireBudget(bytes.size())) : std::nullopt;
  if (!content) return corrupted;
  return CopyMessage(*std::move(content));
}

}  // namespace gpunode::inference
