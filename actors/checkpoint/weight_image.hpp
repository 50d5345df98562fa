// A model with its weights as it answers by them: in one image, in the format that is asked for
// (kernels/model/weight_layout.hpp), made parameter by parameter from any stored model; or read as it
// lies in a folder that `gpunode quantize` wrote. Such a folder has packed.safetensors, a tensor a
// parameter (fp32 and bf16 as such, else its packed rows as bytes), and the texts that came with the
// model. Blocks for as long as the disk takes. No state.
#pragma once

#include <memory>

#include "actors/checkpoint/stored_model.hpp"
#include "actors/checkpoint/text_form.hpp"
#include "kernels/model/decoder_part.hpp"

namespace gpunode::checkpoint {

struct WeightImage {
  std::shared_ptr<const model::Model> model;
  model::WeightLayout layout;
  std::shared_ptr<const ModelContent> content;
  std::shared_ptr<const std::vector<TextFile>> texts;
  TextForm text = {};  // as they say it
  // Of a model in parts: the one whose image this is, which `layout` is of; the content is the whole model's.
  std::optional<model::ModelPart> part = {};
};

// Which of how many parts that a model is divided into; from 0 on.
struct PartChoice {
  std::size_t number = 0, of = 1;
};

struct ImageOptions {
  // Absent: the one that a quantised folder is in, else fp32.
  std::optional<ops::WeightFormat> format = {};
  // Memory for the image, once, aligned to 64. Fails with: out_of_memory.
  std::function<Result<MutableByteView>(std::size_t bytes)> room;
  // Told of each parameter when it is in its place: what it was, and what it is now. Not of a folder that
  // is quantised already.
  std::function<void(std::span<const float> was, const model::WeightLayout::Place& place,
                     ByteView is)>
      on_packed = {};
  LoadOptions load = {};
  // Absent: all of the model. Else all of it is read, and hashed, and one part's weights are kept.
  std::optional<PartChoice> part = {};
};

// Into the room. Fails with: what open_stored_model() fails with; invalid_argument (a folder in another
// format than the one asked for, a weight that is no finite number); corrupted (the digest is not that
// of the bytes); unsupported (a model that knows fp32 alone, or that has no parts).
Result<WeightImage> load_weight_image(const storage::FileSystem& files, const storage::Path& path,
                                      const ImageOptions& options);

// What the content names, before its image is anywhere. Fails with: what make_model() and the texts fail
// with; corrupted (the image that it names has not the model's size).
Result<WeightImage> image_of(std::shared_ptr<const ModelContent> content,
                             std::vector<TextFile> texts);

// Writes the folder, with the texts. Fails with: already_exists (something is there), disk_full,
// permission_denied.
Result<snapshot::Export> save_weight_image(storage::FileSystem& files, const WeightImage& image,
                                           ByteView bytes, const storage::Path& folder);

}  // namespace gpunode::checkpoint
