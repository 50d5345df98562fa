#include "runtime/collective/sum_program.hpp"

#include <algorithm>
#include <cstring>

namespace gpunode::collective {

namespace {
constexpr std::size_t kBlockElements = 4096;
}

std::optional<SumProgram> SumProgram::of(const Tree& tree, TreeNode target,
                                         std::span<const TreeNode> given) {
  if (!tree.contains(target)) return std::nullopt;
  SumProgram program;
  program.input_count_ = static_cast<std::uint32_t>(given.size());
  auto whole = std::find(given.begin(), given.end(), target);
  if (whole != given.end()) {
    program.copied_input_ = static_cast<std::uint32_t>(whole - given.begin());
    return program;
  }
  if (!program.compile(tree, target, given, program.input_count_, 0)) return std::nullopt;
  return program;
}

bool SumProgram::compile(const Tree& tree, TreeNode node, std::span<const TreeNode> given,
                         std::uint32_t out, std::uint32_t scratch_in_use) {
  std::vector<TreeNode> children = tree.children(node);
  if (children.empty()) return false;  // a slice that nobody gave
  std::vector<std::uint32_t> inputs;
  for (std::size_t index = 0; index < children.size(); ++index) {
    auto found = std::find(given.begin(), given.end(), children[index]);
    if (found != given.end()) {
      inputs.push_back(static_cast<std::uint32_t>(found - given.begin()));
      continue;
    }
    // A child that has to be summed first takes the output as its place where every addition that
    // reads it is the first into the output; else a place in scratch.
    bool free_output = std::find(inputs.begin(), inputs.end(), out) == inputs.end();
    std::uint32_t buffer = out;
    if (index > 1 || !free_output) buffer = input_count_ + 1 + scratch_in_use++;
    scratch_count_ = std::max(scratch_count_, scratch_in_use);
    if (!compile(tree, children[index], given, buffer, scratch_in_use)) return false;
    inputs.push_back(buffer);
  }
  steps_.push_back({out, std::move(inputs)});
  return true;
}

// It is read by the first addition into the output and by no other, as the left or right of it:
// what is added to these two comes after them.
bool SumProgram::may_be_output(std::size_t input) const {
  const auto first = std::ranges::find(steps_, input_count_, &Step::out);
  if (first == steps_.end()) return false;
  const auto end = first->inputs.begin() + std::min<std::ptrdiff_t>(2, std::ssize(first->inputs));
  return std::find(first->inputs.begin(), end, input) != end;
}

void SumProgram::run(std::span<const float* const> inputs, float* out, std::size_t count,
                     const AddFn& add, std::vector<float>& scratch) const {
  GPUNODE_CHECK(inputs.size() == input_count_, "inputs of another sum");
  if (copied_input_) {
    if (count > 0) std::memmove(out, inputs[*copied_input_], count * sizeof(float));
    return;
  }
  if (scratch.size() < scratch_count_ * kBlockElements)
    scratch.resize(scratch_count_ * kBlockElements);
  run_blocks(inputs, out, count, add, scratch.data(), kBlockElements);
}

void SumProgram::run_blocks(std::span<const float* const> inputs, float* out, std::size_t count,
                            const AddFn& add, float* scratch, std::size_t block) const {
  GPUNODE_CHECK(inputs.size() == input_count_ && !copied_input_, "inputs of another sum");
  std::vector<const float*> operands;
  for (std::size_t first = 0; first < count; first += block) {
    std::size_t length = std::min(block, count - first);
    auto buffer = [&](std::uint32_t number) -> float* {
      if (number == input_count_) return out + first;
      return scratch + (number - input_count_ - 1) * block;
    };
    for (const Step& step : steps_) {
      operands.clear();
      for (std::uint32_t number : step.inputs)
        operands.push_back(number < input_count_ ? inputs[number] + first : buffer(number));
      add(buffer(step.out), operands, length);
    }
  }
}

}  // namespace gpunode::collective
