#include "actors/inference/row_batch.hpp"

#include <algorithm>
#include <bit>

namespace gpunode::inference {

std::size_t RowBatch::size_of(std::size_t rows) {
  return std::min<std::size_t>(std::bit_width(std::max<std::size_t>(rows, 1) - 1), kSizes - 1);
}

// Of a size that was not seen: as long as the next larger one that was; else half as long again as the one
// below for each doubling, as some is gained by answering rows together.
std::optional<Duration> RowBatch::usual(std::size_t rows) const {
  const std::size_t size = size_of(rows);
  for (std::size_t at = size; at < kSizes; ++at) {
    if (!took_[at]) continue;
    Duration took = *took_[at];
    for (std::size_t below = 0; below < size; ++below)
      if (took_[below]) took = std::min(took, *took_[below] * (std::int64_t{1} << (size - below)));
    return took;
  }
  for (std::size_t below = size; below-- > 0;)
    if (took_[below]) {
      Duration more = *took_[below];
      for (std::size_t at = below; at < size; ++at) more += more / 2;
      return more;
    }
  return {};
}

// With a quarter to spare.
bool RowBatch::is_late(Time now, Time deadline, std::size_t rows) const {
  return now >= deadline || deadline - now < usual(rows).value_or(Duration{}) * 5 / 4;
}

void RowBatch::doubt() {
  for (std::optional<Duration>& known : took_)
    if (known) *known -= *known / 8;
}

Result<RowBatch::Id> RowBatch::add(Time now, Order order) {
  if (now >= order.deadline)
    return Error{ErrorCode::timeout, "the deadline passed before the request was here"};
  if (order.rows > limits_.most_waiting_rows / 2)
    return Error{ErrorCode::invalid_argument,
                 std::to_string(order.rows) + " rows at once, and a request may have " +
                     std::to_string(limits_.most_waiting_rows / 2) + ": ask for them in several"};
  const auto known = clients_.find(order.client);
  const Client own = known == clients_.end() ? Client{} : known->second;
  // Half of all there may be is for others.
  if (waiting_.size() >= limits_.most_waiting || own.requests >= limits_.most_waiting / 2 ||
      waiting_rows_ + order.rows > limits_.most_waiting_rows ||
      own.rows + order.rows > limits_.most_waiting_rows / 2)
    return Error{ErrorCode::resource_exhausted,
                 std::to_string(waiting_rows_) + " rows of " + std::to_string(waiting_.size()) +
                     " requests wait for the model, as many as may: try again in a moment"};
  std::size_t ahead = own.rows + order.rows;  // as others have no more before it than it has itself
  for (const auto& [name, other] : clients_)
    if (name != order.client) ahead += std::min(other.rows, own.rows + order.rows);
  // One pass is under way where others wait.
  const std::size_t whole = (ahead - 1) / limits_.rows + (waiting_.empty() ? 0 : 1);
  Duration wait = usual((ahead - 1) % limits_.rows + 1).value_or(Duration{});
  wait += static_cast<std::int64_t>(whole) * usual(limits_.rows).value_or(Duration{});
  if (order.deadline - now < wait && !waiting_.empty())
    return Error{ErrorCode::resource_exhausted,
                 "the rows that wait take about " +
                     std::to_string(std::chrono::ceil<std::chrono::milliseconds>(wait).count()) +
                     " ms, longer than the request may: try again in a moment, or allow more time"};
  const Id id = ++last_;
  Client& client = clients_[order.client];
  if (client.requests++ == 0) {  // who comes anew has no claim on the past
    std::uint64_t least = clients_.size() > 1 ? UINT64_MAX : 0;
    for (const auto& [name, other] : clients_)
      if (&other != &client) least = std::min(least, other.had);
    client.had = std::max(least, floor_);
  }
  client.rows += order.rows;
  waiting_rows_ += order.rows;
  waiting_[id] = {std::move(order), 0};
  return id;
}

void RowBatch::end(Id id) {
  const auto it = waiting_.find(id);
  if (it == waiting_.end()) return;
  const std::size_t left = it->second.order.rows - it->second.done;
  waiting_rows_ -= left;
  const auto client = clients_.find(it->second.order.client);
  client->second.rows -= left;
  if (--client->second.requests == 0) clients_.erase(client);
  waiting_.erase(it);
}

std::vector<RowBatch::Id> RowBatch::in_turn() const {
  std::vector<Id> ids;
  for (const auto& [id, one] : waiting_) ids.push_back(id);
  if (clients_.size() > 1)
    std::ranges::stable_sort(ids, {},
                             [&](Id id) { return clients_.at(waiting_.at(id).order.client).had; });
  return ids;
}

// Takes out of `ids` those that can be answered neither in a pass of so many rows nor, as it would make
// others late, in a smaller one before it. What is left: that pass before it, empty if there need be none.
std::vector<RowBatch::Id> RowBatch::take_hurried(Time now, std::size_t rows, std::vector<Id>& ids,
                                                 std::vector<Id>& late) const {
  const auto hurried = std::ranges::stable_partition(
      ids, [&](Id id) { return !is_late(now, waiting_.at(id).order.deadline, rows); });
  std::vector<Id> in_time(hurried.begin(), hurried.end()), first;
  ids.erase(hurried.begin(), hurried.end());
  std::ranges::stable_sort(in_time, {}, [&](Id id) { return waiting_.at(id).order.deadline; });
  std::size_t count = 0;
  for (const Id id : in_time) {
    const Waiting& one = waiting_.at(id);
    const std::size_t with = count + one.order.rows - one.done;
    const Time soonest = waiting_.at(first.empty() ? id : first.front()).order.deadline;
    const bool fits = with <= limits_.rows && !is_late(now, soonest, with);
    if (fits) count = with;
    (fits ? first : late).push_back(id);
  }
  const Duration before = count > 0 ? usual(count).value_or(Duration{}) : Duration{};
  const bool harms = std::ranges::any_of(
      ids, [&](Id id) { return is_late(now + before, waiting_.at(id).order.deadline, rows); });
  if (!harms) return first;
  late.insert(late.end(), first.begin(), first.end());
  return {};
}

RowBatch::Pass RowBatch::next(Time now) {
  Pass pass;
  std::vector<Id> ids = in_turn();
  const std::size_t rows = std::min(limits_.rows, waiting_rows_);
  const std::vector<Id> first = take_hurried(now, rows, ids, pass.late);
  for (const Id id : first.empty() ? ids : first) {
    if (pass.rows == limits_.rows) break;
    const Waiting& one = waiting_.at(id);
    const std::size_t left = one.order.rows - one.done;
    const std::size_t count = std::min(left, limits_.rows - pass.rows);
    pass.parts.push_back({id, one.done, count, count == left});
    pass.rows += count;
  }
  if (pass.rows == 0 && !pass.late.empty()) doubt();
  for (const Id id : pass.late) end(id);
  for (const Part& part : pass.parts) {
    Waiting& one = waiting_.at(part.id);
    Client& client = clients_.at(one.order.client);
    client.had += part.count;
    client.rows -= part.count;
    if (part.id == pass.parts.front().id) floor_ = std::max(floor_, client.had);
    one.done += part.count;
    waiting_rows_ -= part.count;
    if (part.is_last) end(part.id);
  }
  return pass;
}

void RowBatch::on_done(std::size_t rows, Duration took) {
  std::optional<Duration>& known = took_[size_of(rows)];
  if (!known) known = took;
  // It believes in slow passes sooner than in quick ones: a deadline that is missed is worse than a pass
  // that could have had one more row.
  known = took > *known ? (*known + took) / 2 : (*known * 15 + took) / 16;
}

}  // namespace gpunode::inference
