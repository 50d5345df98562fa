#include "actors/inference/detail/copy_shelf.hpp"

#include <caf/send.hpp>

#include "actors/inference/copy_codec.hpp"
#include "actors/inference/detail/model_actor.hpp"

namespace gpunode::inference {

void CopyShelf::put(const std::string& digest, ModelBytes bytes, const caf::actor& model) {
  take(model);
  std::lock_guard lock(mutex_);
  places_.emplace(digest, Place{std::move(bytes), model});
}

void CopyShelf::take(const caf::actor& model) {
  std::lock_guard lock(mutex_);
  std::erase_if(places_, [&](const auto& one) { return one.second.model == model; });
}

std::optional<CopyShelf::Place> CopyShelf::find(const std::string& digest) const {
  std::lock_guard lock(mutex_);
  const auto found = places_.find(digest);
  return found == places_.end() ? std::nullopt : std::optional(found->second);
}

CallHandler CopyShelf::answers(std::shared_ptr<CopyShelf> shelf) {
  return [shelf = std::move(shelf)](const NodeId&, const SharedBytes& bytes, CallReply reply) {
    const auto message = decode_copy(bytes.view);
    if (!message) return reply(message.error());
    const auto* ask = std::get_if<CopyAsk>(&*message);
    if (!ask) return reply(Error{ErrorCode::invalid_argument, "not a question"});
    const auto place = shelf->find(ask->digest.text());
    if (!place)
      return reply(Error{ErrorCode::not_found, "this node serves no model of the digest " +
                                                   ask->digest.text().substr(0, 12)});
    const checkpoint::ModelContent& content = place->bytes.content();
    if (!ask->piece) return reply(SharedBytes::from(encode_copy(content)));
    const std::size_t piece = *ask->piece;
    if (piece >= content.pieces.size())
      return reply(Error{ErrorCode::invalid_argument,
                         "the model has " + std::to_string(content.pieces.size()) + " pieces"});
    const std::size_t first = content.piece_first(piece), bytes_of_it = content.piece_bytes(piece);
    if (piece >= content.image_pieces()) {
      const std::string texts = checkpoint::joined(*place->bytes.is->texts);
      return reply(SharedBytes::from(to_bytes(as_bytes(texts).subspan(first, bytes_of_it))));
    }
    if (place->bytes.image.empty())
      return caf::anon_send(place->model, ReadPiece{piece, std::move(reply)});
    reply(place->bytes.image.part(first, bytes_of_it));
  };
}

}  // namespace gpunode::inference
