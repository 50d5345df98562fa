#include "actors/compute/layered_pass.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "kernels/model/model_code.hpp"

namespace gpunode::compute {

namespace {

// Stages of a slice whose gradients may wait to be summed: the slice computes one while the sum of
// the other is under way.
constexpr std::size_t kPartsOfASlice = 2;
// Elements of a sum that one worker takes at a time, where the host computes.
constexpr std::size_t kHostPieceElements = 16384;

std::size_t longest(std::span<const model::ElementRange> stages) {
  std::size_t count = 0;
  for (const model::ElementRange& stage : stages) count = std::max(count, stage.count);
  return count;
}

std::array<float, model::kTailElements> tail_of(const model::LossSum& sum) {
  return {sum.loss, sum.weight};
}

}  // namespace

std::uint64_t LayeredPass::slice_gradient_bytes(std::span<const model::ElementRange> stages) {
  return kPartsOfASlice * longest(stages) * sizeof(float);
}

LayeredPass::LayeredPass(Options options) : options_(std::move(options)) {
  GPUNODE_CHECK(options_.program && options_.workers && options_.device, "a pass needs them all");
  staged_ = !options_.stages.empty();
  if (!staged_) options_.stages = {{0, options_.parameter_count}};
}

// One pass: what is done of it, and what a worker may do next.
struct LayeredPass::Run {
  struct Slice {
    std::size_t node = 0, index = 0;  // of the node's slices
    bool begun = false, busy = false;
    std::size_t stage = 0;  // the next one
    Ahead forward = {};
    // By stage: behind its gradient; null: that has been made. One is written once, before others
    // may read it; a slice whose gradient is the sum runs ahead of who tells it.
    std::vector<std::shared_ptr<const tensor::Event>> made = {};
  };
  struct Node {
    std::optional<collective::SumProgram> program;  // absent: the sum is its only slice's gradient
    std::size_t first_slice = 0;                    // in `slices`
    std::vector<std::size_t> slices_left;           // by stage
    std::size_t summing = 0;                        // the stage whose turn it is
    std::size_t pieces = 0, next_piece = 0, pieces_left = 0;
  };
  enum class Kind : std::uint8_t { none, forward, backward, sum };
  struct Work {
    Kind kind = Kind::none;
    std::size_t index = 0;  // of a slice, or of a node
    std::size_t stage = 0;
    std::size_t piece = 0;
  };

  Run(LayeredPass& owner, std::span<const PassNode> given_nodes, const OnFinal& told,
      std::span<const Ahead> ahead)
      : pass(owner),
        given(given_nodes),
        on_final(told),
        part_elements((longest(owner.options_.stages) + 15) / 16 * 16),
        piece_elements(ops::grain(owner.options_.device->backend(), kHostPieceElements)) {
    for (std::size_t node = 0; node < given.size(); ++node) {
      const SumTask& task = given[node].task;
      GPUNODE_CHECK(!task.slices.empty(), "a node without slices is no work for a pass");
      Node& made = nodes.emplace_back();
      made.first_slice = slices.size();
      made.slices_left.assign(pass.options_.stages.size(), task.slices.size());
      if (!task.kept.empty() || task.slices.size() > 1) {
        made.program = collective::SumProgram::of(pass.options_.tree, task.node, task.given());
        GPUNODE_CHECK(made.program, "slices and kept sums do not make up the node");
      }
      for (std::size_t index = 0; index < task.slices.size(); ++index)
        slices.push_back({.node = node,
                          .index = index,
                          .forward = slices.size() < ahead.size() ? ahead[slices.size()] : Ahead{},
                          .made = decltype(Slice::made)(pass.options_.stages.size())});
    }
  }

  // A worker that throws, as where memory runs out, ends the others too: they may wait for its work.
  void loop(int worker) {
    try {
      work_on(worker);
    } catch (...) {
      std::lock_guard lock(mutex);
      thrown = true;
      changed.notify_all();
      throw;
    }
  }

  void work_on(int worker) {
    std::unique_lock lock(mutex);
    while (auto work = take(lock)) {
      lock.unlock();
      auto done = carry_out(worker, *work);
      lock.lock();
      note(done);
      const bool is_final = done && settle(*work);
      changed.notify_all();
      if (!is_final) continue;
      lock.unlock();
      done = tell(worker, *work);
      lock.lock();
      note(done);
    }
  }

  void note(const Result<void>& done) {
    if (!done && !failure) failure = done.error();
  }

  bool over() const {
    return failure || thrown || std::ranges::all_of(nodes, [this](const Node& node) {
             return node.summing == pass.options_.stages.size();
           });
  }

  // Waits until there is something to do; nothing once all is done, or something has failed.
  std::optional<Work> take(std::unique_lock<std::mutex>& lock) {
    for (;;) {
      if (over()) return {};
      if (Work work = next(); work.kind != Kind::none) return work;
      changed.wait(lock);
    }
  }

  // Sums first, as what is summed can leave; then forward, without which no stage gets whole; then
  // the slice that is furthest behind.
  Work next() {
    for (std::size_t index = 0; index < nodes.size(); ++index) {
      Node& node = nodes[index];
      if (node.pieces_left > 0 && node.next_piece < node.pieces)
        return {Kind::sum, index, node.summing, node.next_piece++};
    }
    Slice* behind = nullptr;
    for (Slice& slice : slices) {
      if (!slice.begun) {
        slice.begun = slice.busy = true;
        return {Kind::forward, static_cast<std::size_t>(&slice - slices.data())};
      }
      const Node& node = nodes[slice.node];
      const bool room = !node.program || slice.stage < node.summing + kPartsOfASlice;
      if (slice.busy || slice.stage == pass.options_.stages.size() || !room) continue;
      if (!behind || slice.stage < behind->stage) behind = &slice;
    }
    if (!behind) return {};
    behind->busy = true;
    return {Kind::backward, static_cast<std::size_t>(behind - slices.data()), behind->stage};
  }

  std::span<float> part_of(std::size_t slice, std::size_t stage) const {
    const model::ElementRange& range = pass.options_.stages[stage];
    const std::size_t node = slices[slice].node;
    if (!nodes[node].program) return {given[node].sum->place() + range.first, range.count};
    const std::size_t index = slice * kPartsOfASlice + stage % kPartsOfASlice;
    return {pass.parts_.as<float>() + index * part_elements, range.count};
  }

  Result<void> carry_out(int worker, const Work& work) {
    if (pass.options_.use) pass.options_.use->got_on();
    if (work.kind == Kind::sum) return sum_piece(worker, work);
    Slice& slice = slices[work.index];
    const std::vector<model::Sample>& samples = given[slice.node].samples[slice.index];
    if (pass.staged_ && work.kind == Kind::backward) {
      auto done = pass.options_.program->backward(worker, work.index, work.stage,
                                                  part_of(work.index, work.stage));
      slice.made[work.stage] = pass.options_.program->reached(work.index);
      return done;
    }
    if (work.kind == Kind::forward)
      return pass.forward(worker, work.index, samples, pass.options_.forward_stages, slice.forward);
    auto loss = pass.options_.program->gradient(worker, samples, part_of(work.index, 0));
    if (loss) loss = pass.believed(*loss, samples.size());
    if (!loss) return loss.error();
    slice.forward.tail = tail_of(*loss);
    return {};
  }

  // What the worker does next comes behind the gradient of a slice's stage.
  Result<void> follow(int worker, std::size_t slice, std::size_t stage) {
    const auto& made = slices[slice].made[stage];
    return made ? pass.options_.device->follow(worker, *made) : Result<void>();
  }

  // Notes that the work is done; whether a range became final with it.
  bool settle(const Work& work) {
    if (work.kind == Kind::sum) {
      Node& node = nodes[work.index];
      if (--node.pieces_left > 0) return false;
      ++node.summing;
      open_sum(node);
      return true;
    }
    Slice& slice = slices[work.index];
    slice.busy = false;
    if (work.kind == Kind::forward) return false;
    ++slice.stage;
    Node& node = nodes[slice.node];
    --node.slices_left[work.stage];
    if (!node.program) {
      ++node.summing;
      return true;
    }
    if (node.pieces_left == 0) open_sum(node);
    return false;
  }

  // Lets workers take pieces of the next sum, if all slices are there.
  void open_sum(Node& node) {
    if (node.summing == pass.options_.stages.size() || node.slices_left[node.summing] > 0) return;
    const std::size_t count = pass.options_.stages[node.summing].count;
    node.pieces = std::max<std::size_t>(1, count / piece_elements + (count % piece_elements > 0));
    node.pieces_left = node.pieces;
    node.next_piece = 0;
  }

  Result<void> sum_piece(int worker, const Work& work) {
    const Node& node = nodes[work.index];
    const PassNode& target = given[work.index];
    const model::ElementRange& range = pass.options_.stages[work.stage];
    const std::size_t first = work.piece * piece_elements;
    const std::size_t count = std::min(piece_elements, range.count - first);
    std::vector<const float*> inputs;
    for (const SharedSum& kept : target.task.kept_sums)
      inputs.push_back(kept->place() + range.first + first);
    for (std::size_t index = 0; index < target.task.slices.size(); ++index) {
      const std::size_t slice = node.first_slice + index;
      if (auto done = follow(worker, slice, work.stage); !done) return done;
      inputs.push_back(part_of(slice, work.stage).data() + first);
    }
    return pass.options_.device->sum(worker, *node.program, inputs,
                                     target.sum->place() + range.first + first, count);
  }

  // The tail lies behind the last parameter and is final with it.
  void sum_tails(std::size_t index) {
    const Node& node = nodes[index];
    const PassNode& target = given[index];
    const std::size_t first = pass.options_.parameter_count;
    std::vector<const float*> inputs;
    for (const SharedSum& kept : target.task.kept_sums) inputs.push_back(&(*kept->host)[first]);
    for (std::size_t slice = 0; slice < target.task.slices.size(); ++slice)
      inputs.push_back(slices[node.first_slice + slice].forward.tail.data());
    const std::span<float> tail = std::span(*target.sum->host).subspan(first);
    if (node.program)
      Device::sum_tails(*node.program, inputs, tail);
    else
      std::copy_n(inputs.front(), tail.size(), tail.begin());
  }

  Result<void> tell(int worker, const Work& work) {
    const std::size_t node = work.kind == Kind::sum ? work.index : slices[work.index].node;
    const model::ElementRange& range = pass.options_.stages[work.stage];
    const bool last = range.first + range.count == pass.options_.parameter_count;
    Sum& sum = *given[node].sum;
    if (given[node].task.wanted) {
      if (work.kind == Kind::backward)
        if (auto done = follow(worker, work.index, work.stage); !done) return done;
      const auto place = std::span(*sum.host).subspan(range.first, range.count);
      auto read = pass.options_.device->to_host(worker, sum.place() + range.first, place);
      if (!read) return read;
    }
    if (last) sum_tails(node);
    on_final(node, range.first, range.count + (last ? model::kTailElements : 0));
    return {};
  }

  LayeredPass& pass;
  std::span<const PassNode> given;
  const OnFinal& on_final;
  std::size_t part_elements, piece_elements;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Slice> slices;
  std::vector<Node> nodes;
  std::optional<Error> failure;
  bool thrown = false;  // by a worker
};

Result<void> LayeredPass::run(std::span<const PassNode> nodes, const OnFinal& on_final,
                              std::size_t ahead) {
  GPUNODE_CHECK(ahead <= ahead_.size(), "more was to be ahead than is");
  Run run(*this, nodes, on_final, std::span<const Ahead>(ahead_).first(ahead));
  drop_ahead();
  const std::size_t elements = run.slices.size() * kPartsOfASlice * run.part_elements;
  if (auto grown = options_.device->pool().grow(parts_, elements * sizeof(float)); !grown)
    return grown;
  options_.program->make_slots(run.slices.size());
  try {
    options_.workers->run(static_cast<std::size_t>(options_.workers->workers()),
                          [&](int worker, std::size_t) { run.loop(worker); });
  } catch (...) {
    static_cast<void>(options_.program->settle());
    throw;
  }
  const auto settled = options_.program->settle();
  if (run.failure) return *run.failure;
  if (!settled) return settled;
  for (const PassNode& node : nodes)
    node.sum->host_is_current = options_.device->shares_memory() || node.task.wanted;
  return {};
}

Result<model::LossSum> LayeredPass::believed(const model::LossSum& told,
                                             std::size_t samples) const {
  if (options_.tokens_per_sample == 0) return told;
  return model::believed(told, {samples, options_.tokens_per_sample});
}

// Stages up to `stages` of one slice; nothing where the model has no stages.
Result<void> LayeredPass::forward(int worker, std::size_t slot,
                                  const std::vector<model::Sample>& samples, std::size_t stages,
                                  Ahead& done) {
  if (!staged_) return {};
  for (; done.stages < stages; ++done.stages) {
    auto loss = options_.program->forward(worker, slot, done.stages, samples);
    if (loss && done.stages + 1 == options_.forward_stages) loss = believed(*loss, samples.size());
    if (!loss) return loss.error();
    if (options_.use) options_.use->got_on();
    done.tail = tail_of(*loss);
  }
  return {};
}

Result<void> LayeredPass::forward_ahead(std::span<const std::vector<model::Sample>> slices,
                                        std::size_t stages) {
  if (ahead_.empty()) {
    ahead_.resize(slices.size());
    options_.program->make_slots(slices.size());
  }
  GPUNODE_CHECK(ahead_.size() == slices.size(), "other slices than before");
  std::mutex mutex;
  std::optional<Error> failure;
  options_.workers->run(slices.size(), [&](int worker, std::size_t slice) {
    auto done = forward(worker, slice, slices[slice], stages, ahead_[slice]);
    std::lock_guard lock(mutex);
    if (!done && !failure) failure = done.error();
  });
  if (auto settled = options_.program->settle(); !settled && !failure) failure = settled.error();
  if (!failure) return {};
  drop_ahead();
  return *failure;
}

}  // namespace gpunode::compute
