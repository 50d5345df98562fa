#include "runtime/job/early_steps.hpp"

namespace gpunode::job {

namespace {
constexpr std::size_t kMaxMessages = 65536;

// A NEED of all chunks of a large model is long.
std::size_t list_bytes(const collective::ExchangeMessage& message) {
  const auto* need = std::get_if<collective::Need>(&message);
  if (!need) return 0;
  return need->partial_chunks.size() * sizeof(need->partial_chunks[0]) +
         need->result_chunks.size() * sizeof(need->result_chunks[0]);
}
}  // namespace

std::size_t payload_bytes(const collective::ExchangeMessage& message) {
  if (const auto* partial = std::get_if<collective::PartialChunk>(&message))
    return partial->payload.size();
  if (const auto* result = std::get_if<collective::ResultChunk>(&message))
    return result->payload.size();
  return 0;
}

void EarlySteps::keep_in(Kept& kept, const NodeId& from, const StepMessage& message) const {
  const std::uint64_t size = payload_bytes(message.message) + list_bytes(message.message);
  if (kept.list.size() >= kMaxMessages || kept.bytes + size > most_bytes_) return;
  kept.bytes += size;
  kept.list.emplace_back(from, message);
}

void EarlySteps::keep(const NodeId& from, const StepMessage& message) {
  keep_in(now_, from, message);
}

void EarlySteps::keep_early(const view::ViewName& view, const NodeId& from,
                            const StepMessage& message) {
  if (view.view_id < early_view_.view_id) return;
  if (early_view_ != view) early_ = {};
  early_view_ = view;
  keep_in(early_, from, message);
}

void EarlySteps::on_view(const view::ViewName& view) {
  now_ = {};
  if (early_view_ == view) std::swap(now_, early_);
  early_ = {};
  early_view_ = {};
}

EarlySteps::List EarlySteps::take() {
  return std::exchange(now_, {}).list;
}

}  // namespace gpunode::job
