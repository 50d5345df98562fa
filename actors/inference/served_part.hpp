// One part of a model whose head another node serves (part_chain.hpp): its weights on a device, and for each
// head that has opened it room for the keys and values of that one's texts. No mailbox; the part's actor
// owns one and calls it from its thread. Which page is whose the heads know; a part keeps no books of that.
#pragma once

#include <memory>
#include <vector>

#include "actors/inference/part_codec.hpp"
#include "actors/inference/served_model.hpp"
#include "actors/inference/written_rows.hpp"
#include "runtime/base/ids.hpp"

namespace gpunode::inference {

class ServedPart {
 public:
  // Reads and checks every byte of the model, keeps the part's, and computes a row of zeros. Fails with:
  // what ServedModel::load() fails with; unsupported (a model that has no parts).
  static Result<std::unique_ptr<ServedPart>> load(const ServedModel::Options& options);

  const ModelFacts& facts() const { return facts_; }
  const PartName& name() const { return name_; }

  // To PartOpen and PartPass. Fails with: invalid_argument (what is no question; rows that do not fit),
  // unsupported (a head that divides the model otherwise), wrong_state (a pass of a life that is over),
  // resource_exhausted (as many heads as may have opened it), out_of_memory, device_lost.
  Result<PartMessage> answer(const PartMessage& asked, const NodeId& from);
  // Gives back the room of heads that have not used it for long; they open it anew.
  void forget_unused();

 private:
  struct Life {
    std::uint64_t number = 0;
    NodeId node;  // whose head it is
    std::uint64_t head = 0;
    Time used{};
    std::unique_ptr<model::DecoderPart> decoder;
    WrittenRows written;
  };
  explicit ServedPart(const ServedModel::Options& options)
      : use_(*options.device, options.user),
        clock_(options.clock),
        independent_rows_(options.independent_rows) {}
  Result<void> place(tensor::Buffer image);
  Result<void> probe();
  Result<std::unique_ptr<model::DecoderPart>> decoder(const model::DecoderExtents& extents);
  Result<PartMessage> open(const PartOpen& order, const NodeId& from);
  Result<PartMessage> pass(const PartPass& order, const NodeId& from);
  Result<void> check_extents(const model::DecoderExtents& asked) const;
  bool make_room_for(const NodeId& node);
  bool forget_a_life();
  std::vector<Life>::iterator find(std::uint64_t life, const NodeId& of);
  Result<PartMessage> close(const PartClose& order, const NodeId& from);
  const model::ModelPart& is() const { return *image_.part; }

  compute::DeviceUse use_;
  const Clock* clock_;
  const bool independent_rows_;
  checkpoint::WeightImage image_;
  ModelFacts facts_;
  PartName name_;
  std::shared_ptr<const tensor::Buffer> weights_;  // in the device's memory
  std::unique_ptr<model::Program> program_;
  std::size_t pages_of_text_ = 0;  // of a full one
  std::vector<Life> lives_;
  std::uint64_t opened_ = 0;
};

}  // namespace gpunode::inference
