#include "kernels/ops/staging.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace gpunode::ops {

Staging::Staging(Backend& backend)
    : backend_(&backend),
      piece_bytes_(backend.capabilities().staging_piece_bytes),
      pool_(backend.staging_memory(), 2 * piece_bytes_) {}

Result<Staging::Piece*> Staging::next_piece() {
  Piece& piece = pieces_[turn_++ % pieces_.size()];
  if (auto grown = pool_.grow(piece.memory, piece_bytes_); !grown)
    return grown.error().within("page-locked memory for copies");
  if (piece.copied)
    if (auto done = piece.copied->synchronise(); !done) return done.error();
  return &piece;
}

Result<void> Staging::upload(tensor::Stream& stream, ByteView from, void* to) {
  if (backend_->capabilities().host_accessible) return backend_->upload(stream, from, to);
  for (std::size_t at = 0; at < from.size(); at += piece_bytes_) {
    const ByteView part = from.subspan(at, std::min(piece_bytes_, from.size() - at));
    auto piece = next_piece();
    if (!piece) return piece.error();
    Piece& own = **piece;
    std::memcpy(own.memory.data(), part.data(), part.size());
    auto done = backend_->upload(stream, {own.memory.as<std::byte>(), part.size()},
                                 static_cast<std::byte*>(to) + at);
    if (!done) return done;
    auto event = backend_->record(stream);
    if (!event) return event.error();
    own.copied = *std::move(event);
  }
  return {};
}

// A part is on its way while the one before it is taken.
Result<void> Staging::download(tensor::Stream& stream, const void* from, MutableByteView to) {
  if (backend_->capabilities().host_accessible) return backend_->download(stream, from, to);
  MutableByteView coming;
  Piece* carrier = nullptr;
  for (std::size_t at = 0; at < to.size() || carrier; at += piece_bytes_) {
    const MutableByteView before = coming;
    Piece* full = std::exchange(carrier, nullptr);
    if (at < to.size()) {
      coming = to.subspan(at, std::min(piece_bytes_, to.size() - at));
      auto piece = next_piece();
      if (!piece) return piece.error();
      auto done = backend_->download(stream, static_cast<const std::byte*>(from) + at,
                                     {(*piece)->memory.as<std::byte>(), coming.size()});
      if (!done) return done;
      auto event = backend_->record(stream);
      if (!event) return event.error();
      (*piece)->copied = *std::move(event);
      carrier = *piece;
    }
    if (!full) continue;
    if (auto done = full->copied->synchronise(); !done) return done;
    std::memcpy(before.data(), full->memory.data(), before.size());
  }
  return {};
}

}  // namespace gpunode::ops
