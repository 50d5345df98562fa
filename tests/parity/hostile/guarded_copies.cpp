#include "tests/parity/hostile/guarded_copies.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "runtime/base/check.hpp"
#include "tests/parity/hostile/device_window.hpp"

namespace gpunode::hostile {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kScratchPoison = 64 << 10;  // of scratch memory so much holds the pattern

constexpr std::size_t whole_pages(std::size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

bool GuardedCopies::Cluster::is_written() const {
  return std::any_of(accesses.begin(), accesses.end(),
                     [](const ops::Access& one) { return one.use != ops::Use::read; });
}

std::string GuardedCopies::Cluster::fields() const {
  std::string text;
  for (const ops::Access& one : accesses)
    if (text.find("'" + std::string(one.field) + "'") == std::string::npos)
      text += (text.empty() ? "'" : " and '") + std::string(one.field) + "'";
  return text;
}

GuardedCopies::GuardedCopies(std::span<const ops::Access> accesses, std::size_t scratch_bytes,
                             Guard guard)
    : scratch_bytes_(scratch_bytes) {
  std::vector<ops::Access> sorted(accesses.begin(), accesses.end());
  std::stable_sort(
      sorted.begin(), sorted.end(),
      [](const ops::Access& left, const ops::Access& right) { return left.data < right.data; });
  for (const ops::Access& one : sorted) {
    const bool joins = !clusters_.empty() && (one.data < clusters_.back().end ||
                                              one.field == clusters_.back().accesses.back().field);
    if (!joins) clusters_.push_back({{}, one.data, one.data});
    clusters_.back().accesses.push_back(one);
    clusters_.back().end = std::max(clusters_.back().end, one.data + one.bytes);
  }
  memory_bytes_ = kPage + whole_pages(scratch_bytes) + kPage;
  for (const Cluster& cluster : clusters_)
    memory_bytes_ += whole_pages(static_cast<std::size_t>(cluster.end - cluster.begin)) + kPage;
  void* memory =
      mmap(nullptr, memory_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  GPUNODE_CHECK(memory != MAP_FAILED, "no memory for guarded copies");
  memory_ = static_cast<std::byte*>(memory);
  std::byte* next = memory_ + kPage;
  for (Cluster& cluster : clusters_) {
    place(cluster, next, guard);
    next = cluster.pages_end + kPage;
  }
  scratch_ = next;
  mprotect(scratch_, whole_pages(scratch_bytes), PROT_READ | PROT_WRITE);
  std::memset(scratch_, kPoison, std::min(scratch_bytes, kScratchPoison));
}

GuardedCopies::~GuardedCopies() {
  munmap(memory_, memory_bytes_);
}

void GuardedCopies::place(Cluster& cluster, std::byte* pages, Guard guard) {
  const auto bytes = static_cast<std::size_t>(cluster.end - cluster.begin);
  const std::size_t size = whole_pages(bytes);
  cluster.pages = pages;
  cluster.pages_end = pages + size;
  cluster.copy = guard == Guard::behind ? cluster.pages_end - bytes : pages;
  mprotect(pages, size, PROT_READ | PROT_WRITE);
  std::memset(pages, kPoison, size);
  for (const ops::Access& one : cluster.accesses)
    if (one.use != ops::Use::write)
      std::memcpy(cluster.copy + (one.data - cluster.begin), one.data, one.bytes);
  cluster.before.assign(cluster.pages, cluster.pages_end);
  if (!cluster.is_written()) mprotect(pages, size, PROT_READ);
}

std::byte* GuardedCopies::copy_of(const std::byte* data) const {
  for (const Cluster& cluster : clusters_)
    if (data >= cluster.begin && data < cluster.end) return cluster.copy + (data - cluster.begin);
  GPUNODE_CHECK(false, "no access has this byte");
  return nullptr;
}

// A page between two copies is named after the nearer one.
std::string GuardedCopies::text_of(const FaultTrap::Fault& fault) const {
  const std::string verb = fault.is_write ? "writes " : "reads ";
  const std::byte* earlier_end = nullptr;
  std::string earlier;
  for (const Cluster& cluster : clusters_) {
    if (fault.address < cluster.pages) {
      if (earlier_end && fault.address - earlier_end < cluster.copy - fault.address) break;
      return verb + std::to_string(cluster.copy - fault.address) + " bytes before " +
             cluster.fields();
    }
    if (fault.address < cluster.pages_end)
      return verb + cluster.fields() + ", which it declares to read only";
    earlier_end = cluster.copy + (cluster.end - cluster.begin);
    earlier = cluster.fields();
  }
  if (!earlier_end || fault.address >= scratch_) return verb + "beyond its workspace";
  return verb + std::to_string(fault.address - earlier_end) + " bytes beyond " + earlier;
}

std::optional<std::string> GuardedCopies::compare(const Cluster& cluster) {
  Bytes expected = cluster.before;
  const auto offset = static_cast<std::size_t>(cluster.copy - cluster.pages);
  for (const ops::Access& one : cluster.accesses) {
    if (one.use == ops::Use::read) continue;
    const auto at = static_cast<std::size_t>(one.data - cluster.begin);
    std::memcpy(expected.data() + offset + at, cluster.copy + at, one.bytes);
  }
  const auto difference = std::mismatch(expected.begin(), expected.end(), cluster.pages);
  if (difference.first == expected.end()) return std::nullopt;
  return "writes byte " + std::to_string(difference.second - cluster.copy) + " of " +
         cluster.fields() + ", which it does not declare";
}

std::optional<std::string> GuardedCopies::finish(const FaultTrap::Fault& fault) {
  std::optional<std::string> reason;
  if (fault.address) reason = text_of(fault);
  for (const Cluster& cluster : clusters_) {
    if (!reason) reason = compare(cluster);
    for (const ops::Access& one : cluster.accesses)
      if (one.use != ops::Use::read)
        std::memcpy(const_cast<std::byte*>(one.data), cluster.copy + (one.data - cluster.begin),
                    one.bytes);
  }
  return reason;
}

}  // namespace gpunode::hostile
