#include "actors/inference/part_codec.hpp"

#include <bit>

#include "actors/inference/part_name.hpp"
#include "runtime/base/aligned_copy.hpp"
#include "runtime/base/wire_vector.hpp"
#include "schemas/model_part_generated.h"

namespace gpunode::inference {

namespace wire = gpunode::wire::model_part;

namespace {

using Builder = flatbuffers::FlatBufferBuilder;
constexpr std::size_t kLimitBytes = 17u << 20;  // what a call carries, and what stands around it

wire::Name to_wire(const PartName& part) {
  return wire::Name(std::bit_cast<wire::Hash256>(part.digest.value), part.number, part.of);
}
std::optional<PartName> from_wire(const wire::Name& name) {
  if (name.of() < 1 || name.of() > kMostPartsOfModel || name.number() >= name.of()) return {};
  return PartName{
      {std::bit_cast<std::array<std::byte, 32>>(name.digest())}, name.number(), name.of()};
}

// False: lists lie in one another, and would take more memory than was sent.
template <class Number>
bool read(const flatbuffers::Vector<Number>* in, WireBudget& budget, std::vector<Number>& to) {
  if (!in) return true;
  if (!budget.take(in->size() * sizeof(Number))) return false;
  to.assign(in->begin(), in->end());
  return true;
}

template <class Body>
Bytes finished(Builder& builder, wire::Body kind, flatbuffers::Offset<Body> body) {
  builder.Finish(wire::CreateEnvelope(builder, kind, body.Union()), wire::EnvelopeIdentifier());
  return finished_bytes(builder);
}

Bytes encoded(const PartOpen& open) {
  Builder builder(256);
  const wire::Name name = to_wire(open.part);
  const auto number = [](std::size_t value) { return static_cast<std::uint32_t>(value); };
  return finished(builder, wire::Body::Open,
                  wire::CreateOpen(builder, &name, open.head, open.first_stage, open.end_stage,
                                   number(open.extents.texts), number(open.extents.rows),
                                   number(open.extents.pages)));
}

Bytes encoded(const PartOpened& opened) {
  Builder builder(64);
  return finished(builder, wire::Body::Opened, wire::CreateOpened(builder, opened.life));
}

Bytes encoded(const PartClose& close) {
  Builder builder(128);
  const wire::Name name = to_wire(close.part);
  return finished(builder, wire::Body::Close, wire::CreateClose(builder, &name, close.life));
}

Bytes encoded(const PartPass& pass) {
  return encode_pass(pass.part, pass.life, pass.rows, pass.values);
}

Bytes encoded(const PartValues& values) {
  Builder builder(values.values.size() * sizeof(float) + 256);
  const auto all = builder.CreateVector(values.values);
  return finished(builder, wire::Body::Values, wire::CreateValues(builder, all));
}

std::optional<PartMessage> message_in(const wire::Envelope& envelope, WireBudget budget) {
  if (const auto* in = envelope.body_as_Open()) {
    const auto part = from_wire(*in->name());
    if (!part) return {};
    return PartOpen{*part,
                    in->head(),
                    in->first_stage(),
                    in->end_stage(),
                    {in->texts(), in->rows(), in->pages()}};
  }
  if (const auto* in = envelope.body_as_Opened()) return PartOpened{in->life()};
  if (const auto* in = envelope.body_as_Close()) {
    const auto part = from_wire(*in->name());
    return part ? std::optional<PartMessage>(PartClose{*part, in->life()}) : std::nullopt;
  }
  if (const auto* in = envelope.body_as_Pass()) {
    const auto part = from_wire(*in->name());
    PartPass pass{.life = in->life()};
    if (!part || !read(in->positions(), budget, pass.rows.positions) ||
        !read(in->texts(), budget, pass.rows.texts) ||
        !read(in->pages(), budget, pass.rows.pages) ||
        !read(in->chosen(), budget, pass.rows.chosen) || !read(in->values(), budget, pass.values))
      return {};
    pass.part = *part;
    return pass;
  }
  const auto* in = envelope.body_as_Values();
  PartValues made;
  if (!in || !read(in->values(), budget, made.values)) return {};
  return made;
}

}  // namespace

Bytes encode_part(const PartMessage& message) {
  return std::visit([](const auto& one) { return encoded(one); }, message);
}

Bytes encode_pass(const PartName& part, std::uint64_t life, const model::PassRows& rows,
                  std::span<const float> values) {
  Builder builder(values.size_bytes() + 4 * rows.pages.size() + 12 * rows.positions.size() + 512);
  const wire::Name name = to_wire(part);
  const auto positions = builder.CreateVector(rows.positions);
  const auto texts = builder.CreateVector(rows.texts);
  const auto pages = builder.CreateVector(rows.pages);
  const auto chosen = builder.CreateVector(rows.chosen);
  const auto all = builder.CreateVector(values.data(), values.size());
  return finished(builder, wire::Body::Pass,
                  wire::CreatePass(builder, &name, life, positions, texts, pages, chosen, all));
}

Result<PartMessage> decode_part(ByteView bytes) {
  const Error corrupted{ErrorCode::corrupted, "no pass of a model's part, nor what belongs to it"};
  if (bytes.size() > kLimitBytes || bytes.size() < 8) return corrupted;
  AlignedCopy copy(bytes);
  flatbuffers::Verifier verifier(copy.data(), copy.size(), 8, 8);
  if (!wire::VerifyEnvelopeBuffer(verifier)) return corrupted;
  auto message = message_in(*wire::GetEnvelope(copy.data()), WireBudget(bytes.size()));
  if (!message) return corrupted;
  return *std::move(message);
}

}  // namespace gpunode::inference
