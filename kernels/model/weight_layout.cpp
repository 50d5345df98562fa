#include "kernels/model/weight_layout.hpp"

#include "runtime/base/check.hpp"

namespace gpunode::model {

WeightLayout flat_layout(const Model& model) {
  WeightLayout layout;
  for (const ParameterSpec& parameter : model.parameters()) {
    const std::size_t bytes = parameter.element_count() * sizeof(float);
    const std::int64_t inner = parameter.shape.empty() ? 1 : parameter.shape.back();
    layout.places.push_back({.first = layout.bytes, .inner = inner, .bytes = bytes});
    layout.bytes += bytes;
  }
  return layout;
}

Result<void> place_parameter(const Model& model, const WeightLayout& layout, std::size_t parameter,
                             std::span<const float> values, MutableByteView image) {
  const WeightLayout::Place& place = layout.places.at(parameter);
  GPUNODE_CHECK(image.size() == layout.bytes, "the image is of another layout");
  if (place.bytes == 0) return {};
  auto packed =
      ops::pack_weights(place.format, values, place.inner, image.subspan(place.first, place.bytes));
  if (!packed) return packed.error().within(model.parameters()[parameter].name);
  return {};
}

}  // namespace gpunode::model
