// What the head of a model in parts and the nodes that have the others say to each other, as payloads of
// calls (schemas/model_part.fbs). That rows, pages and numbers fit a part is checked by the part
// (kernels/model/decoder_part.hpp); here it is only made sure that they are such lists.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "kernels/model/decoder_part.hpp"
#include "runtime/storage/checksum.hpp"

namespace gpunode::inference {

// Of a pass, from one node to another: it is one call, in which this is by far the most.
inline constexpr std::size_t kMostPartNumbers = (15u << 20) / sizeof(float);

struct PartName {
  storage::Sha256 digest;  // of the whole model's content
  std::uint32_t number = 0, of = 1;

  auto operator<=>(const PartName&) const = default;
  std::string text() const {  // "2/3"
    return std::to_string(number + 1) + "/" + std::to_string(of);
  }
};
struct PartOpen {
  PartName part;
  std::uint64_t head = 0;
  std::uint32_t first_stage = 0, end_stage = 0;
  model::DecoderExtents extents;
};
struct PartOpened {
  std::uint64_t life = 0;
};
struct PartClose {
  PartName part;
  std::uint64_t life = 0;
};
struct PartPass {
  PartName part;
  std::uint64_t life = 0;
  model::PassRows rows;  // without tokens
  std::vector<float> values;
};
struct PartValues {
  std::vector<float> values;
};
using PartMessage = std::variant<PartOpen, PartOpened, PartClose, PartPass, PartValues>;

Bytes encode_part(const PartMessage& message);
// What of a pass travels, without a copy of it first.
Bytes encode_pass(const PartName& part, std::uint64_t life, const model::PassRows& rows,
                  std::span<const float> values);
// Fails with corrupted: no such message.
Result<PartMessage> decode_part(ByteView bytes);

}  // namespace gpunode::inference
