// Takes a model's weights and texts from the nodes that serve it, from several at once, into memory; every
// piece is checked before it counts. Blocks its thread, which is a model's own.
#pragma once

#include <caf/actor.hpp>

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "actors/inference/served_model.hpp"
#include "runtime/base/ids.hpp"

namespace gpunode::inference {

struct CopyOrder {
  std::string model;  // its name, for people
  storage::Sha256 digest;
  std::function<std::vector<NodeId>()> holders;  // live ones that serve it, now
  caf::actor calls;
  const Clock* clock = nullptr;
  std::stop_token stop;  // asked for: it fails with cancelled
};

// Fails with: unavailable (nobody is left that has it; what each one said last), corrupted, out_of_memory,
// cancelled, and what checkpoint::image_of() fails with.
Result<checkpoint::WeightImage> copy_model(const CopyOrder& order,
                                           const ServedModel::Options::Room& room);

// Keeps it in the folder, whole or not at all, as load_weight_image() takes it; a disk that cannot is logged.
void keep_copy(const std::string& model, const checkpoint::WeightImage& image, ByteView bytes,
               storage::FileSystem& files, const storage::Path& folder);

}  // namespace gpunode::inference
