#include "actors/job/send_order.hpp"

#include <variant>

namespace gpunode::jobs {

transport::Urgency urgency_of(const job::JobBody& body) {
  if (std::holds_alternative<job::StatePart>(body) || std::holds_alternative<job::ResultPart>(body))
    return transport::Urgency::low;
  const auto* step = std::get_if<job::StepMessage>(&body);
  const bool asks = step && std::holds_alternative<collective::Need>(step->message);
  return step && !asks ? transport::Urgency::normal : transport::Urgency::high;
}

std::uint64_t order_of(const job::JobBody& body, bool speculates) {
  constexpr std::uint64_t kPlaceBits = 34, kDone = (std::uint64_t{1} << kPlaceBits) - 1;
  constexpr std::uint64_t kResults = std::uint64_t{1} << 32;
  const auto* step = std::get_if<job::StepMessage>(&body);
  if (!step) return 0;
  const std::uint64_t order = step->step << kPlaceBits;
  if (const auto* partial = std::get_if<collective::PartialChunk>(&step->message)) {
    const std::uint64_t chunk = partial->chunk;
    return order + (speculates ? 2 * chunk + 1 : chunk);
  }
  if (const auto* result = std::get_if<collective::ResultChunk>(&step->message)) {
    const std::uint64_t chunk = result->chunk;
    return order + (speculates ? 2 * chunk : kResults + chunk);
  }
  return std::holds_alternative<collective::Done>(step->message) ? order + kDone : 0;
}

}  // namespace gpunode::jobs
