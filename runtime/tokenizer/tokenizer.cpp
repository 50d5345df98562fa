#include "runtime/tokenizer/tokenizer.hpp"

#include <algorithm>
#include <array>

#include "runtime/base/utf8.hpp"
#include "runtime/tokenizer/detail/added_tokens.hpp"
#include "runtime/tokenizer/detail/decoder.hpp"
#include "runtime/tokenizer/detail/post_processor.hpp"
#include "runtime/tokenizer/detail/pre_tokenizer.hpp"
#include "runtime/tokenizer/detail/tokenizer_file.hpp"
#include "runtime/tokenizer/detail/word_model.hpp"

namespace gpunode::tokenizer {
namespace {

using namespace detail;

Error too_long(const EncodeOptions& options) {
  return {ErrorCode::invalid_argument,
          "it has more than " + std::to_string(options.most) + " tokens: shorten it"};
}

class FileTokenizer final : public Tokenizer {
 public:
  Result<void> open(TokenizerFile file) {
    for (auto& [text, token] : file.vocabulary) vocabulary_.add(std::move(text), token);
    auto normalise = make_normalizer(field(file.rest, "normalizer"));
    if (!normalise) return normalise.error();
    normalise_ = *std::move(normalise);
    auto words = make_pre_tokenizer(field(file.rest, "pre_tokenizer"));
    if (!words) return words.error();
    words_ = *std::move(words);
    auto model = make_word_model(field(file.rest, "model"), vocabulary_, file.merges);
    if (!model) return model.error();
    model_ = *std::move(model);
    auto added = AddedTokens::read(field(file.rest, "added_tokens"), vocabulary_, normalise_);
    if (!added) return added.error();
    added_ = *std::move(added);
    auto around = make_surroundings(field(file.rest, "post_processor"));
    if (!around) return around.error();
    around_ = *std::move(around);
    auto join = make_decoder(field(file.rest, "decoder"));
    if (!join) return join.error();
    join_ = *std::move(join);
    bytes_ = byte_rule_of(field(file.rest, "decoder"));
    count_ = vocabulary_.size();
    for (const AddedToken& token : added_.all())
      count_ = std::max(count_, static_cast<std::size_t>(token.token) + 1);
    for (const auto* side : {&around_.before, &around_.after})
      for (const Token token : *side)
        count_ = std::max(count_, static_cast<std::size_t>(token) + 1);
    return {};
  }

  Result<std::vector<Token>> encode(std::string_view text, EncodeOptions options) const override {
    constexpr std::size_t kMostShorter = 4;  // as a normaliser makes a text
    if (model_->least_tokens(text.size() / kMostShorter) > options.most) return too_long(options);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = utf8_length(text.substr(at));
      if (length == 0)
        return {ErrorCode::invalid_argument, "the text is no UTF-8 at byte " + std::to_string(at)};
      at += length;
    }
    auto pieces = added_.cut(text, normalise_, options.special_tokens);
    if (!pieces) return pieces.error();
    if (auto done = words_(*pieces); !done) return done.error();
    std::vector<Token> tokens;
    if (options.surrounded) tokens = around_.before;
    for (const Piece& piece : *pieces) {
      if (tokens.size() + model_->least_tokens(piece.text.size()) > options.most)
        return too_long(options);
      if (piece.token != kNone) {
        tokens.push_back(piece.token);
        continue;
      }
      if (auto done = model_->tokenize(piece.text, tokens); !done) return done.error();
    }
    if (options.surrounded) tokens.insert(tokens.end(), around_.after.begin(), around_.after.end());
    return tokens;
  }

  Result<std::string> decode(std::span<const Token> tokens, bool special_tokens) const override {
    Texts texts;
    for (const Token token : tokens) {
      const std::string_view text = text_of(token);
      if (!text.empty() && (special_tokens || !is_special(token))) texts.emplace_back(text);
    }
    const auto joined = join_(std::move(texts));
    if (!joined) return joined.error();
    std::string whole;
    for (const std::string& text : *joined) whole += text;
    return whole;
  }

  std::size_t vocabulary() const override { return count_; }
  std::string_view text_of(Token token) const override {
    const AddedToken* added = added_.find(token);
    return added ? added->reads : vocabulary_.text(token);
  }
  std::optional<Token> token_of(std::string_view text) const override {
    const Token added = added_.find(std::string(text));
    const Token token = added != kNone ? added : vocabulary_.find(text);
    return token == kNone ? std::nullopt : std::optional(token);
  }
  bool is_special(Token token) const override { return added_.is_special(token); }
  std::string bytes_of(Token token) const override {
    const std::string text(text_of(token));
    if (text.empty() || is_special(token)) return text;
    if (auto bytes = bytes_.of(text)) return *std::move(bytes);
    // Behind another one, as the first may lose a space.
    constexpr const char* kBefore = "a";
    const auto alone = join_({kBefore}), together = join_({kBefore, text});
    if (!alone || !together) return text;
    std::string before, both;
    for (const std::string& one : *alone) before += one;
    for (const std::string& one : *together) both += one;
    return both.substr(std::min(before.size(), both.size()));
  }
  bool is_made_of_bytes() const override { return bytes_.compose; }

 private:
  Vocabulary vocabulary_;
  Normalizer normalise_;
  PreTokenizer words_;
  std::unique_ptr<WordModel> model_;
  AddedTokens added_;
  Surroundings around_;
  Decoder join_;
  ByteRule bytes_;
  std::size_t count_ = 0;
};

class ByteTokenizer final : public Tokenizer {
 public:
  ByteTokenizer() {
    for (std::size_t byte = 0; byte < texts_.size(); ++byte) texts_[byte] = static_cast<char>(byte);
  }
  Result<std::vector<Token>> encode(std::string_view text, EncodeOptions) const override {
    std::vector<Token> tokens;
    for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
    return tokens;
  }
  Result<std::string> decode(std::span<const Token> tokens, bool) const override {
    std::string text;
    for (const Token token : tokens) text += text_of(token);
    return text;
  }
  std::size_t vocabulary() const override { return texts_.size(); }
  std::string_view text_of(Token token) const override {
    const auto byte = static_cast<std::size_t>(token);
    return byte < texts_.size() ? std::string_view(&texts_[byte], 1) : std::string_view();
  }
  std::optional<Token> token_of(std::string_view text) const override {
    if (text.size() != 1) return std::nullopt;
    return static_cast<unsigned char>(text.front());
  }
  bool is_special(Token) const override { return false; }
  std::string bytes_of(Token token) const override { return std::string(text_of(token)); }
  bool is_made_of_bytes() const override { return true; }

 private:
  std::array<char, 256> texts_;
};

}  // namespace

std::shared_ptr<const Tokenizer> Tokenizer::of_bytes() {
  static const auto made = std::make_shared<ByteTokenizer>();
  return made;
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::parse(std::string_view json) {
  auto file = read_tokenizer_file(json);
  if (!file) return file.error();
  auto tokenizer = std::make_shared<FileTokenizer>();
  if (auto done = tokenizer->open(*std::move(file)); !done)
    return done.error().within("tokenizer.json");
  return std::shared_ptr<const Tokenizer>(std::move(tokenizer));
}

}  // namespace gpunode::tokenizer
