#include "runtime/snapshot/state_view.hpp"

namespace gpunode::snapshot {

std::string_view to_string(TensorPart part) {
  static constexpr ByPart<std::string_view> kNames{"weight", "first_moment", "second_moment"};
  return kNames[static_cast<std::size_t>(part)];
}

Digest state_digest(const StateView& state) {
  DigestStream stream;
  auto add_number = [&](std::uint64_t value) {
    stream.add(std::as_bytes(std::span<const std::uint64_t, 1>(&value, 1)));
  };
  for (const ParameterView& parameter : state.parameters) {
    add_number(parameter.name.size());
    stream.add(as_bytes(parameter.name));
    add_number(parameter.shape.size());
    for (std::uint64_t extent : parameter.shape) add_number(extent);
    for (std::span<const float> values : parameter.parts) {
      add_number(values.size());
      stream.add(bytes_of(values));
    }
  }
  return stream.value();
}

}  // namespace gpunode::snapshot
