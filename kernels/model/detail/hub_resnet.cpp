// ResNets of two convolutions a block, as torchvision names their tensors and timm does too. A file
// of such tensors says all of a model but the size of its images.
// Source: torchvision/models/resnet.py (BasicBlock); timm's config.json, as its models on the hub
// have it.
#include "kernels/model/detail/hub_families.hpp"

namespace gpunode::model {
namespace detail {
namespace {

// A config that timm reads; its own ResNet-18 has groups = 4, blocks = 2, filters = 64, stem = 7.
void write_resnet(const Settings& settings, HubConfig& config) {
  const std::int64_t groups = number_of(settings, "groups");
  const std::int64_t layers = 2 + 2 * groups * number_of(settings, "blocks");
  config["architecture"] = "resnet" + std::to_string(layers);
  config["num_classes"] = number_of(settings, "classes");
  config["num_features"] = number_of(settings, "filters") << (groups - 1);
  const char* extents[] = {"channels", "height", "width"};
  for (std::size_t at = 0; at < std::size(extents); ++at)
    config["pretrained_cfg.input_size." + std::to_string(at)] = number_of(settings, extents[at]);
}

HubRow row(std::string_view name) {
  return {name, {{name}}};
}
HubRow window(std::string_view name) {
  return {name, {{name}}, HubLayout::channels_last};
}

}  // namespace

HubFamily resnet_family() {
  return {.kind = "resnet",
          .model_types = {},
          .prefix = "",
          .rows = {window("conv*.weight"), row("bn*.weight"), row("bn*.bias"),
                   row("bn*.running_mean"), row("bn*.running_var"), window("layer*.*.conv*.weight"),
                   row("layer*.*.bn*.weight"), row("layer*.*.bn*.bias"),
                   row("layer*.*.bn*.running_mean"), row("layer*.*.bn*.running_var"),
                   window("layer*.*.downsample.0.weight"), row("layer*.*.downsample.1.weight"),
                   row("layer*.*.downsample.1.bias"), row("layer*.*.downsample.1.running_mean"),
                   row("layer*.*.downsample.1.running_var"), row("fc.weight"), row("fc.bias")},
          .keys = {},
          .fixed = {},
          .passed_over = {".num_batches_tracked"},  // only a mean over all batches would want it
          .read = nullptr,
          .write = write_resnet};
}

}  // namespace detail

namespace {

Error another(const std::string& why) {
  return {ErrorCode::unsupported, "its tensors are not those of a ResNet of torchvision's: " + why};
}

// The extents of a tensor that must be there and have `rank` of them.
Result<std::vector<std::int64_t>> extents_of(const HubShapes& shapes, const std::string& name,
                                             std::size_t rank) {
  const auto found = shapes.find(name);
  if (found == shapes.end()) return another(name + " is missing");
  if (found->second.size() != rank)
    return another(name + " has " + std::to_string(found->second.size()) + " extents, not " +
                   std::to_string(rank));
  return found->second;
}

std::string block_name(std::int64_t group, std::int64_t index) {
  return "layer" + std::to_string(group) + "." + std::to_string(index);
}

// How many blocks a group has; 0 of one that is not there.
std::int64_t blocks_of(const HubShapes& shapes, std::int64_t group) {
  std::int64_t blocks = 0;
  while (shapes.contains(block_name(group, blocks) + ".conv1.weight")) ++blocks;
  return blocks;
}

// Fills in what is not said.
Result<ImageSize> image_of(const HubConfig& config, std::int64_t stem, ImageSize image) {
  const std::int64_t usual = stem == 7 ? 224 : 32;
  for (const auto& [extent, key] : {std::pair{&image.height, "pretrained_cfg.input_size.1"},
                                    std::pair{&image.width, "pretrained_cfg.input_size.2"}}) {
    if (*extent > 0) continue;
    *extent = usual;
    if (!config.contains(key)) continue;
    const auto said = detail::whole_of(config, key);
    if (!said) return said.error();
    *extent = *said;
  }
  return image;
}

}  // namespace

Result<HubDescription> model_of_shapes(const HubShapes& shapes, const HubConfig& config,
                                       ImageSize image) {
  const auto first = extents_of(shapes, "conv1.weight", 4);
  if (!first) return first.error();
  const auto last = extents_of(shapes, "fc.weight", 2);
  if (!last) return last.error();
  if (shapes.contains(block_name(1, 0) + ".conv3.weight"))
    return another("its blocks have three convolutions, which is not built");
  const std::int64_t blocks = blocks_of(shapes, 1);
  if (blocks == 0) return another(block_name(1, 0) + ".conv1.weight is missing");
  std::int64_t groups = 1;
  for (; blocks_of(shapes, groups + 1) > 0; ++groups)
    if (const std::int64_t others = blocks_of(shapes, groups + 1); others != blocks)
      return another("layer" + std::to_string(groups + 1) + " has " + std::to_string(others) +
                     " blocks and layer1 " + std::to_string(blocks) +
                     ", but only groups of the same length are built");
  const std::int64_t stem = first->at(2);
  const auto size = image_of(config, stem, image);
  if (!size) return size.error();
  HubDescription made{"resnet", {}};
  for (const auto& [key, value] :
       {std::pair{"height", size->height}, std::pair{"width", size->width},
        std::pair{"channels", first->at(1)}, std::pair{"classes", last->at(0)},
        std::pair{"groups", groups}, std::pair{"blocks", blocks},
        std::pair{"filters", first->at(0)}, std::pair{"stem", stem}})
    made.settings[key] = std::to_string(value);
  return made;
}

}  // namespace gpunode::model
