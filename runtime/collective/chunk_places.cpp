#include "runtime/collective/chunk_places.hpp"

#include <utility>

namespace gpunode::collective {

ChunkPlaces::ChunkPlaces(std::shared_ptr<std::vector<float>> values, const ChunkLayout& layout,
                         std::vector<std::optional<Use>> uses)
    : values_(std::move(values)), layout_(layout) {
  GPUNODE_CHECK(values_->size() == layout.element_count && uses.size() == layout.chunk_count(),
                "places of another vector");
  places_.reserve(uses.size());
  for (std::optional<Use>& use : uses) places_.push_back({std::move(use), State::open});
}

MutableByteView ChunkPlaces::bytes_of(std::uint32_t chunk) {
  return std::as_writable_bytes(
      std::span(*values_).subspan(layout_.first(chunk), layout_.size(chunk)));
}

WritableBytes ChunkPlaces::lend(std::uint32_t chunk, const Use& use, std::size_t bytes) {
  {
    std::lock_guard lock(mutex_);
    if (chunk >= places_.size()) return {};
    Place& place = places_[chunk];
    if (place.state != State::open || place.use != use || bytes_of(chunk).size() != bytes)
      return {};
    place.state = State::lent;
  }
  auto loan = std::shared_ptr<const void>(
      values_->data(), [self = shared_from_this(), chunk](const void*) { self->give_back(chunk); });
  return {std::move(loan), bytes_of(chunk)};
}

bool ChunkPlaces::close(std::uint32_t chunk, const Use& use, const std::byte* at) {
  std::lock_guard lock(mutex_);
  Place& place = places_[chunk];
  if (place.use != use) return true;  // the place is for another
  if (place.state == State::lent && at != bytes_of(chunk).data()) return false;
  place.state = State::closed;
  return true;
}

void ChunkPlaces::give_back(std::uint32_t chunk) {
  std::lock_guard lock(mutex_);
  Place& place = places_[chunk];
  if (place.state == State::lent) place.state = State::open;
}

}  // namespace gpunode::collective
