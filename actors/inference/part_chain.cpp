#include "actors/inference/part_chain.hpp"

#include <algorithm>
#include <cmath>

namespace gpunode::inference {
namespace {

// To make room there, where another node could as well; and for a pass that nobody has a deadline for.
constexpr Duration kOpenWithin = std::chrono::seconds(5), kLongestPass = std::chrono::seconds(60);
// Nor is a part asked for less, however soon the texts' time is up: what it has not answered by then is not
// known to be its fault, and costs the pages of all texts.
constexpr Duration kShortestPass = std::chrono::seconds(2);
// Who has failed is asked again after so long.
constexpr Duration kPassedOver = std::chrono::seconds(1);

bool are_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

template <class Message>
Result<Message> message_in(const Result<SharedBytes>& bytes) {
  if (!bytes) return bytes.error();
  auto message = decode_part(bytes->view);
  if (!message) return message.error();
  auto* wanted = std::get_if<Message>(&*message);
  if (!wanted) return Error{ErrorCode::corrupted, "its answer is none to what it was asked"};
  return std::move(*wanted);
}

}  // namespace

PartChain::PartChain(Options options) : options_(std::move(options)) {
  const auto count = static_cast<std::uint32_t>(options_.parts.size());
  for (std::uint32_t number = 1; number < count; ++number)
    others_.push_back({{options_.digest, number, count}, &options_.parts[number], {}, {}, {}});
}

PartChain::~PartChain() {
  for (const Other& other : others_)
    if (other.at)
      options_.access.tell(other.at->node,
                           SharedBytes::from(encode_part(PartClose{other.name, other.at->life})));
}

Duration PartChain::left() const {
  const Time now = options_.clock->now();
  return until_ >= now + kLongestPass ? kLongestPass : std::max(until_ - now, kShortestPass);
}

void PartChain::pass_over(Other& other, const NodeId& node, const Error& why) const {
  other.passed_over[node] = {options_.clock->now() + kPassedOver, why.message()};
}

Error PartChain::missing(const Other& other, const std::string& why) const {
  return {ErrorCode::unavailable,
          "part " + other.name.text() + " of model " + options_.model + " is missing: " + why};
}

Result<std::uint64_t> PartChain::ready() {
  for (Other& other : others_) {
    if (other.at) continue;
    if (auto opened = open(other); !opened) return opened.error();
    ++life_;
  }
  return life_;
}

Result<void> PartChain::open(Other& other) {
  const Time now = options_.clock->now();
  std::erase_if(other.passed_over, [&](const auto& one) { return one.second.until <= now; });
  std::string why;
  std::vector<NodeId> holders = options_.access.holders(other.name);
  std::ranges::stable_partition(holders, [&](const NodeId& one) { return one != other.late; });
  for (const NodeId& node : holders) {
    const std::string name = options_.access.name_of(node);
    const std::string between = why.empty() ? "" : "; ";
    if (!other.passed_over.contains(node)) {
      // Where it is the last, nothing is won by not waiting: it may compute a pass of another head.
      const Duration timeout = node == holders.back() ? left() : std::min(kOpenWithin, left());
      auto place = open_at(other, node, timeout);
      if (place) {
        other.at = *place;
        return {};
      }
      pass_over(other, node, place.error());
    }
    why += between + name + ": " + other.passed_over[node].why;
  }
  if (why.empty())
    why = "no live node serves it; on one, `gpunode serve PATH --name " + options_.model +
          " --part " + other.name.text() + "` does";
  return missing(other, why);
}

Result<PartChain::Place> PartChain::open_at(const Other& other, const NodeId& node,
                                            Duration timeout) {
  const PartOpen order{.part = other.name,
                       .head = options_.head,
                       .first_stage = static_cast<std::uint32_t>(other.is->first_stage),
                       .end_stage = static_cast<std::uint32_t>(other.is->end_stage),
                       .extents = options_.extents};
  const auto opened = message_in<PartOpened>(
      options_.access.ask(node, SharedBytes::from(encode_part(order)), timeout));
  if (!opened) return opened.error();
  return Place{node, opened->life, false};
}

Result<std::vector<float>> PartChain::pass(const Other& other, const model::PassRows& rows,
                                           std::span<const float> in) {
  auto answer = message_in<PartValues>(options_.access.ask(
      other.at->node, SharedBytes::from(encode_pass(other.name, other.at->life, rows, in)),
      left()));
  if (!answer) return answer.error();
  const std::size_t wanted = other.is->is_last() ? rows.chosen.size() * options_.vocabulary
                                                 : rows.positions.size() * other.is->gives;
  if (answer->values.size() != wanted)
    return Error{ErrorCode::corrupted, std::to_string(answer->values.size()) +
                                           " numbers came back, and it makes " +
                                           std::to_string(wanted)};
  if (!are_finite(answer->values))
    return Error{ErrorCode::internal,
                 "it makes numbers that are not finite: its device fails, or "
                 "the model's training has gone wrong"};
  return std::move(answer->values);
}

// The node that has it, which gives back its room if it hears of it.
void PartChain::leave(Other& other, const Error& why) const {
  const Place at = *std::exchange(other.at, std::nullopt);
  // One that was started again has but lost its life, which is so once.
  const bool is_anew = why.code == ErrorCode::wrong_state && at.has_computed;
  const bool is_late = why.code == ErrorCode::timeout && options_.clock->now() >= until_;
  if (why.code == ErrorCode::timeout) other.late = at.node;
  if (why.code != ErrorCode::wrong_state)
    options_.access.tell(at.node, SharedBytes::from(encode_part(PartClose{other.name, at.life})));
  if (!is_anew && !is_late) pass_over(other, at.node, why);
}

Result<void> PartChain::run(const model::PassRows& rows, std::span<const float> in,
                            std::span<float> scores) {
  std::vector<float> values(in.begin(), in.end());
  if (!are_finite(values))
    return {ErrorCode::internal, "part 1/" + std::to_string(options_.parts.size()) + " of model " +
                                     options_.model +
                                     " makes numbers that are not finite: its device fails, or the "
                                     "model's training has gone wrong"};
  for (Other& other : others_) {
    if (!other.at) return missing(other, "it was not opened");
    auto made = pass(other, rows, values);
    if (!made) {
      const std::string name = options_.access.name_of(other.at->node);
      // A text that makes such numbers makes them again, and all others have other ones.
      if (made.error().code == ErrorCode::internal &&
          options_.access.holders(other.name).size() == 1)
        return made.error().within("part " + other.name.text() + " of model " + options_.model +
                                   " on " + name);
      leave(other, made.error());
      return missing(other, name + ": " + made.error().message());
    }
    other.at->has_computed = true;
    values = *std::move(made);
  }
  std::ranges::copy(values, scores.begin());
  return {};
}

}  // namespace gpunode::inference
