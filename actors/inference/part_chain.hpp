// The parts of a model that other nodes have, as the head sees them: for each the node that computes it
// now, and the life of the room that it has made there. A pass goes to them in order, and every answer
// comes back to the head, which so knows which part failed. Where one does, the head turns to another node
// that has the part, or says which is missing. What the texts' pages held on the node before is gone then,
// and so is that of all parts: the number that ready() tells is another one, and the texts begin anew.
//   away     -- opened on a node that has the part -->  at hand
//   at hand  -- any failure of a pass ------------->  away; that node is passed over for a second,
//                                                     unless the texts' time was up
// Owned by a served model's thread, which it blocks. Costs, a pass: the rows' numbers to each part and back.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "actors/inference/part_codec.hpp"
#include "runtime/base/bytes.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/ids.hpp"

namespace gpunode::inference {

// The others, as a node reaches them.
struct PartAccess {
  // Live nodes that serve the part.
  std::function<std::vector<NodeId>(const PartName& part)> holders;
  // Of one of them, and waits. Fails with: what calls fail with.
  std::function<Result<SharedBytes>(const NodeId& node, SharedBytes request, Duration timeout)> ask;
  // Of one of them, and does not wait.
  std::function<void(const NodeId& node, SharedBytes message)> tell;
  // Of people, for what is said of a part.
  std::function<std::string(const NodeId& node)> name_of;
};

class PartChain final : public model::PartsBehind {
 public:
  struct Options {
    std::string model;  // its name, for people
    storage::Sha256 digest;
    std::vector<model::ModelPart> parts;  // all of them, the head's first
    std::size_t vocabulary = 0;
    model::DecoderExtents extents;
    std::uint64_t head = 0;  // another number for each decoder of this node
    PartAccess access;
    const Clock* clock = nullptr;
  };
  explicit PartChain(Options options);
  PartChain(const PartChain&) = delete;
  ~PartChain() override;  // tells them all, so that their room is free at once

  // Until when the answers to the next passes are waited for.
  void set_until(Time until) { until_ = until; }

  // Opens what is away. Fails with: unavailable (which part, and why).
  Result<std::uint64_t> ready() override;
  // Fails with: unavailable; internal (what the head has made is not finite).
  Result<void> run(const model::PassRows& rows, std::span<const float> in,
                   std::span<float> scores) override;

 private:
  struct Place {
    NodeId node;
    std::uint64_t life = 0;
    bool has_computed = false;  // a pass
  };
  struct Other {
    PartName name;
    const model::ModelPart* is = nullptr;
    std::optional<Place> at;
    struct Failed {
      Time until{};
      std::string why;
    };
    std::map<NodeId, Failed> passed_over;
    std::optional<NodeId> late;  // was asked in vain: others are asked before it
  };
  Duration left() const;
  void pass_over(Other& other, const NodeId& node, const Error& why) const;
  Error missing(const Other& other, const std::string& why) const;
  Result<void> open(Other& other);
  Result<Place> open_at(const Other& other, const NodeId& node, Duration timeout);
  void leave(Other& other, const Error& why) const;
  Result<std::vector<float>> pass(const Other& other, const model::PassRows& rows,
                                  std::span<const float> in);

  const Options options_;
  std::vector<Other> others_;
  std::uint64_t life_ = 0;  // of all of them together
  Time until_ = Time::max();
};

}  // namespace gpunode::inference
