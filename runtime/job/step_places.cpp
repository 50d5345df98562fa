#include "runtime/job/step_places.hpp"

#include <algorithm>
#include <utility>

namespace gpunode::job {

void StepPlaces::open(Step step) {
  auto shared = std::make_shared<const Step>(std::move(step));
  std::lock_guard lock(mutex_);
  step_ = std::move(shared);
}

void StepPlaces::close() {
  std::lock_guard lock(mutex_);
  step_.reset();
}

WritableBytes StepPlaces::lend(const NodeId& from, ByteView body, std::size_t payload_bytes) {
  std::shared_ptr<const Step> step;
  {
    std::lock_guard lock(mutex_);
    step = step_;
  }
  if (!step || !step->places || !collective::is_exchange_body(body)) return {};
  const auto named = collective::decode_exchange(body, {}, step->chunk_count);
  if (!named || named->name != step->name) return {};
  const auto member = std::ranges::find(step->members, from);
  if (member == step->members.end()) return {};
  const auto rank = static_cast<std::uint16_t>(member - step->members.begin());
  const collective::ExchangeMessage& message = named->message;
  if (const auto* result = std::get_if<collective::ResultChunk>(&message))
    return step->places->lend(result->chunk, {rank, std::nullopt}, payload_bytes);
  if (const auto* partial = std::get_if<collective::PartialChunk>(&message))
    return step->places->lend(partial->chunk, {rank, partial->node}, payload_bytes);
  return {};
}

}  // namespace gpunode::job
