// Models and weights as Hugging Face's transformers and, of ResNets, torchvision keep them: what of a
// config.json gives which of our settings, and which tensor, turned how, holds which rows of our
// parameters; and the other way. One table a family (detail/hub_families.cpp) serves both
// directions. No file is read here.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/model/model.hpp"

namespace gpunode::model {

// The values of a config.json by key, those inside an object or a list by "object.key", "list.0".
// Monostate: null.
using HubValue = std::variant<std::monostate, bool, std::int64_t, double, std::string>;
using HubConfig = std::map<std::string, HubValue>;

enum class HubLayout : std::uint8_t {
  same,
  transposed,    // theirs (columns, rows), ours (rows, columns)
  channels_last  // theirs (O, I, KH, KW), ours (O, KH, KW, I)
};

// One tensor of theirs and where its elements are in our flat vector.
struct HubTensor {
  std::string name;                 // as transformers writes it today
  std::vector<std::string> others;  // names under which older files have it
  std::vector<std::int64_t> shape;  // as it stands in their file
  std::string parameter;            // ours, which may hold several of theirs one below the other
  std::size_t first = 0;            // its first element in the flat vector
  HubLayout layout = HubLayout::same;

  std::size_t element_count() const {
    std::size_t count = 1;
    for (std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
    return count;
  }
};

struct HubDescription {
  std::string kind;
  Settings settings;
};
// The model that a config.json describes, read at most `context` positions at once (0: as many as
// it says). Fails with: unsupported (a family, or a value, that ours does not compute, naming both),
// invalid_argument (a key that is missing or has no sense).
Result<HubDescription> model_of_hub(const HubConfig& config, std::int64_t context = 0);

// The extents of the tensors of a file by their names.
using HubShapes = std::map<std::string, std::vector<std::int64_t>, std::less<>>;
struct ImageSize {
  std::int64_t height = 0, width = 0;  // in pixels; 0: not said
};
// The model of which torchvision's `state_dict` holds these tensors: a ResNet of two convolutions a
// block. They do not say how large its images are: where `image` does not either, the config of
// timm may ("pretrained_cfg.input_size"), else 224x224, or 32x32 behind a first window of 3.
// Fails with: unsupported (tensors of another model, and what speaks against this one).
Result<HubDescription> model_of_shapes(const HubShapes& shapes, const HubConfig& config = {},
                                       ImageSize image = {});

// The config.json of a model; that of a ResNet is of timm's form. Fails with: unsupported (a kind of
// model that none of them has).
Result<HubConfig> hub_config_of(const Model& model);

// The tensors that make up a model, in the order of ours. Fails with: unsupported.
Result<std::vector<HubTensor>> hub_tensors(const Model& model);
// Whether files of this model may hold a tensor of this name that has nothing to learn, or is
// another's copy.
bool hub_passes_over(const Model& model, std::string_view name);

// Copies one tensor between their file, element_count() values, and our flat vector.
void from_hub(const HubTensor& tensor, std::span<const float> theirs, std::span<float> parameters);
void to_hub(const HubTensor& tensor, std::span<const float> parameters, std::span<float> theirs);

}  // namespace gpunode::model
