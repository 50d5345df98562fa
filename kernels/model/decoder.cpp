#include "kernels/model/decoder.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/model/model_code.hpp"

namespace gpunode::model {
namespace {

Result<void> check_part(const Decoder& decoder, std::size_t vocabulary, const TextPart& part) {
  const auto refused = [](std::string text) {
    return Error{ErrorCode::invalid_argument, std::move(text)};
  };
  if (part.tokens.empty()) return refused("no tokens to read");
  for (const Token token : part.tokens)
    if (token < 0 || static_cast<std::size_t>(token) >= vocabulary)
      return refused("token " + std::to_string(token) + " is outside the vocabulary of " +
                     std::to_string(vocabulary));
  if (part.scored > part.tokens.size())
    return refused(std::to_string(part.scored) + " of " + std::to_string(part.tokens.size()) +
                   " tokens are to be scored");
  if (part.scored > 1 && !decoder.steps_back())
    return {ErrorCode::unsupported, "the model tells scores of a part's last token alone"};
  const std::size_t context = decoder.context();
  if (part.position > context || part.tokens.size() > context - part.position)
    return {ErrorCode::resource_exhausted,
            std::to_string(part.position) + " of " + std::to_string(context) +
                " positions are taken: begin anew and read the newer part again"};
  const std::size_t end = part.position + part.tokens.size();
  const std::size_t needed = (end + decoder.page() - 1) / decoder.page();
  if (part.pages.size() < needed)
    return refused("a text of " + std::to_string(end) + " positions has " +
                   std::to_string(part.pages.size()) + " pages, and needs " +
                   std::to_string(needed));
  for (const std::int32_t page : part.pages)
    if (page < 0 || static_cast<std::size_t>(page) >= decoder.pages())
      return refused("page " + std::to_string(page) + " of " + std::to_string(decoder.pages()));
  return {};
}

// One text, whose pages are the decoder's first.
class DecoderSession final : public Session {
 public:
  explicit DecoderSession(std::unique_ptr<Decoder> decoder)
      : decoder_(std::move(decoder)), pages_(decoder_->pages()) {
    std::iota(pages_.begin(), pages_.end(), 0);
  }
  std::size_t position() const override { return position_; }
  std::size_t capacity() const override { return decoder_->context(); }
  void reset() override { position_ = 0; }

  Result<void> append(std::span<const Token> tokens, std::span<float> logits_out) override {
    const TextPart part{.tokens = tokens, .position = position_, .pages = pages_};
    if (auto done = decoder_->read(std::span(&part, 1), logits_out); !done) return done;
    position_ += tokens.size();
    return {};
  }

 private:
  std::unique_ptr<Decoder> decoder_;
  std::vector<std::int32_t> pages_;
  std::size_t position_ = 0;
};

// A session a page.
class SessionsDecoder final : public Decoder {
 public:
  SessionsDecoder(std::vector<std::unique_ptr<Session>> sessions, std::size_t vocabulary,
                  std::size_t rows)
      : sessions_(std::move(sessions)), vocabulary_(vocabulary), rows_(rows) {}
  // Of sessions that end nowhere so many positions do.
  std::size_t context() const override {
    return std::min(sessions_[0]->capacity(), std::size_t{1} << 24);
  }
  std::size_t page() const override { return context(); }
  std::size_t pages() const override { return sessions_.size(); }
  std::size_t most_texts() const override { return sessions_.size(); }
  std::size_t most_rows() const override { return rows_ == 0 ? context() : rows_; }

  Result<void> read(std::span<const TextPart> parts, std::span<float> scores_out) override {
    if (auto good = check_parts(*this, vocabulary_, parts, scores_out.size()); !good) return good;
    std::vector<float> unwanted(vocabulary_);
    for (const TextPart& part : parts) {
      Session& session = *sessions_[static_cast<std::size_t>(part.pages[0])];
      if (part.position == 0) session.reset();
      if (part.position != session.position())
        return {ErrorCode::invalid_argument,
                "a text goes on at position " + std::to_string(part.position) +
                    ", and its session is at " + std::to_string(session.position())};
      const std::span<float> out =
          part.scored > 0 ? scores_out.first(vocabulary_) : std::span(unwanted);
      if (part.scored > 0) scores_out = scores_out.subspan(vocabulary_);
      if (auto done = session.append(part.tokens, out); !done) return done;
    }
    return {};
  }

 private:
  std::vector<std::unique_ptr<Session>> sessions_;
  std::size_t vocabulary_, rows_;
};

}  // namespace

Result<void> check_parts(const Decoder& decoder, std::size_t vocabulary,
                         std::span<const TextPart> parts, std::size_t scores) {
  std::size_t rows = 0, wanted = 0;
  for (const TextPart& part : parts) {
    if (auto good = check_part(decoder, vocabulary, part); !good) return good;
    rows += part.tokens.size();
    wanted += part.scored;
  }
  if (std::max(parts.size(), wanted) > decoder.most_texts() || rows > decoder.most_rows())
    return {ErrorCode::resource_exhausted,
            std::to_string(rows) + " tokens of " + std::to_string(parts.size()) + " texts, and " +
                std::to_string(wanted) +
                " scores, are more than a pass takes: " + std::to_string(decoder.most_rows()) +
                " of " + std::to_string(decoder.most_texts())};
  if (scores != wanted * vocabulary)
    return {ErrorCode::invalid_argument, "room for " + std::to_string(scores) + " scores, of " +
                                             std::to_string(wanted * vocabulary)};
  return {};
}

std::unique_ptr<Session> session_of(std::unique_ptr<Decoder> decoder) {
  return std::make_unique<DecoderSession>(std::move(decoder));
}

Result<std::unique_ptr<Decoder>> sessions_as_decoder(Program& program, std::size_t vocabulary,
                                                     const DecoderOptions& options) {
  std::vector<std::unique_ptr<Session>> sessions;
  for (std::size_t text = 0; text < std::max<std::size_t>(options.texts, 1); ++text) {
    auto session = make_session(program);
    if (!session) return session.error();
    if ((*session)->capacity() == 0)
      return Error{ErrorCode::internal, "Session::capacity() is 0: it holds one token at least"};
    sessions.push_back(std::move(*session));
  }
  return {std::make_unique<SessionsDecoder>(std::move(sessions), vocabulary, options.rows)};
}

}  // namespace gpunode::model
