#include "tests/parity/hostile/access_ledger.hpp"

#include <algorithm>

namespace gpunode::hostile {
namespace {

bool is_write(const ops::Access& access) {
  return access.use != ops::Use::read;
}

bool meets(const ops::Access& left, const ops::Access& right) {
  return left.data < right.data + right.bytes && right.data < left.data + left.bytes &&
         (is_write(left) || is_write(right));
}

}  // namespace

std::string_view AccessLedger::Conflict::kind() const {
  if (!is_write(access)) return "read after write";
  return is_write(earlier_access) ? "write after write" : "write after read";
}

std::size_t AccessLedger::open_stream() {
  for (std::size_t place = 0; place < closed_.size(); ++place) {
    const std::size_t stream = closed_[place];
    if (!entries_[stream].empty()) continue;  // work that nobody waited for stays its own
    closed_.erase(closed_.begin() + static_cast<std::ptrdiff_t>(place));
    return stream;
  }
  clocks_.emplace_back();
  entries_.emplace_back();
  return clocks_.size() - 1;
}

void AccessLedger::close_stream(std::size_t stream) {
  closed_.push_back(stream);
}

void AccessLedger::join(Clock& clock, const Clock& other) {
  if (clock.size() < other.size()) clock.resize(other.size());
  for (std::size_t stream = 0; stream < other.size(); ++stream)
    clock[stream] = std::max(clock[stream], other[stream]);
}

std::optional<AccessLedger::Conflict> AccessLedger::meet(std::size_t stream, const Clock& known,
                                                         const ops::Access& access) const {
  for (std::size_t other = 0; other < entries_.size(); ++other) {
    if (other == stream) continue;
    const auto& entries = entries_[other];
    auto entry =
        std::upper_bound(entries.begin(), entries.end(), at(known, other),
                         [](std::uint64_t time, const Entry& one) { return time < one.time; });
    for (; entry != entries.end(); ++entry)
      if (meets(entry->access, access)) return Conflict{*entry->call, entry->access, access};
  }
  return std::nullopt;
}

std::optional<AccessLedger::Conflict> AccessLedger::enter(std::size_t stream,
                                                          const std::string& call,
                                                          std::span<const ops::Access> accesses) {
  Clock& clock = clocks_[stream];
  join(clock, host_);
  for (const ops::Access& access : accesses)
    if (auto conflict = meet(stream, clock, access)) return conflict;
  if (clock.size() <= stream) clock.resize(stream + 1);
  const std::uint64_t time = ++clock[stream];
  const auto name = std::make_shared<const std::string>(call);
  for (const ops::Access& access : accesses) entries_[stream].push_back({time, access, name});
  return std::nullopt;
}

std::optional<AccessLedger::Conflict> AccessLedger::enter_host(const ops::Access& access) const {
  return meet(entries_.size(), host_, access);
}

void AccessLedger::host_learns(Clock clock) {
  join(host_, clock);
  for (std::size_t stream = 0; stream < entries_.size(); ++stream)
    std::erase_if(entries_[stream],
                  [&](const Entry& entry) { return entry.time <= at(host_, stream); });
}

}  // namespace gpunode::hostile
