// What a graph program tells of samples without a gradient: the loss and how much of it is right, and scores.
#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/model/detail/graph_program.hpp"

namespace gpunode::model {
namespace {

constexpr std::size_t kAnsweredTogether = 64;  // samples of a pass that tells scores

bool convolves(const graph::Graph& graph) {
  return std::ranges::find(graph.nodes, graph::Op::conv2d, &graph::Node::op) != graph.nodes.end();
}

}  // namespace

Result<std::vector<float>> GraphProgram::values_of(graph::ValueId id, Worker& worker,
                                                   const Slot& slot) {
  std::vector<float> values(slot.executable->graph()[id].element_count());
  const void* place = slot.executable->place_of(id, places_of(worker, slot));
  if (auto done =
          backend_.download(*worker.stream, place, std::as_writable_bytes(std::span(values)));
      !done)
    return done.error();
  if (auto done = worker.stream->synchronise(); !done) return done.error();
  return values;
}

Result<double> GraphProgram::loss_of(Worker& worker, const Slot& slot) {
  const auto losses = values_of(slot.executable->graph().losses, worker, slot);
  if (!losses) return losses.error();
  double sum = 0;
  for (const float loss : *losses) sum += loss;
  return sum;
}

Result<std::uint64_t> GraphProgram::correct_of(Worker& worker, const Slot& slot) {
  const graph::Graph& graph = slot.executable->graph();
  const auto scores = values_of(graph.logits, worker, slot);
  if (!scores) return scores.error();
  const auto targets = values_of(graph.targets, worker, slot);  // whole numbers, in the same bits
  if (!targets) return targets.error();
  const std::size_t width = scores->size() / targets->size();
  std::uint64_t correct = 0;
  for (std::size_t row = 0; row < targets->size(); ++row) {
    const auto begin = scores->begin() + static_cast<std::ptrdiff_t>(row * width);
    const auto end = begin + static_cast<std::ptrdiff_t>(width);
    const auto best = std::max_element(begin, end) - begin;
    // Scores that are no numbers say nothing.
    correct += std::bit_cast<std::int32_t>((*targets)[row]) == best &&
               std::all_of(begin, end, [](float score) { return std::isfinite(score); });
  }
  return correct;
}

Result<SharedExecutable> GraphProgram::answering_for(std::size_t samples) {
  std::lock_guard lock(mutex_);
  return answering_.get({samples, format_}, [&] {
    return with_constants(compile(model_, graph::Purpose::forward, samples, format_, true));
  });
}

Result<void> GraphProgram::run_forward(Worker& worker, Slot& slot,
                                       Result<SharedExecutable> executable,
                                       std::span<const Sample> samples) {
  if (auto done = prepare(slot, std::move(executable), samples, *worker.stream); !done) return done;
  if (auto done = prepare(worker, *slot.executable); !done) return done;
  return run(worker, slot, 0, places_of(worker, slot));
}

Result<void> GraphProgram::scores(int worker_number, std::span<const Sample> samples,
                                  std::span<float> out) {
  if (auto ready = require_loaded(); !ready) return ready;
  const std::size_t each = model_.tokens_per_sample() * model_.vocabulary();
  if (out.size() != samples.size() * each)
    return {ErrorCode::invalid_argument, "room for " + std::to_string(out.size()) +
                                             " scores, and " + model_.name() + " tells " +
                                             std::to_string(each) + " of each of " +
                                             std::to_string(samples.size()) + " samples"};
  Worker& worker = worker_at(worker_number);
  Slot& slot = slot_at(static_cast<std::size_t>(worker_number));
  // A convolution's products are over the pixels of all samples, in an order that follows from how many
  // there are; it has work enough with one.
  const std::size_t together = convolves(first_->graph()) ? 1 : kAnsweredTogether;
  for (std::size_t first = 0; first < samples.size(); first += together) {
    const auto group = samples.subspan(first, std::min(together, samples.size() - first));
    if (auto done = run_forward(worker, slot, answering_for(group.size()), group); !done)
      return done;
    const auto found = values_of(slot.executable->graph().logits, worker, slot);
    slot.samples = 0;
    if (!found) return found.error();
    std::ranges::copy(*found, out.begin() + static_cast<std::ptrdiff_t>(first * each));
  }
  return {};
}

Result<Evaluation> GraphProgram::evaluate(int worker_number, std::span<const Sample> samples) {
  if (auto ready = require_loaded(); !ready) return ready.error();
  Worker& worker = worker_at(worker_number);
  Slot& slot = slot_at(static_cast<std::size_t>(worker_number));
  Evaluation sum{.loss = 0, .weight = 0, .correct = 0};
  for (std::size_t first = 0; first < samples.size(); first += kEvaluationGroup) {
    const auto group = samples.subspan(first, std::min(kEvaluationGroup, samples.size() - first));
    auto executable = executable_for(graph::Purpose::forward, group.size());
    if (auto done = run_forward(worker, slot, std::move(executable), group); !done)
      return done.error();
    const auto loss = loss_of(worker, slot);
    if (!loss) return loss.error();
    const auto correct = correct_of(worker, slot);
    if (!correct) return correct.error();
    sum.loss += *loss;
    sum.weight += static_cast<double>(slot.counted);
    *sum.correct += *correct;
  }
  slot.samples = 0;
  return sum;
}

}  // namespace gpunode::model
