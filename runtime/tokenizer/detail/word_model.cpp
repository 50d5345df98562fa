#include "runtime/tokenizer/detail/word_model.hpp"

#include <map>

#include "runtime/tokenizer/detail/byte_pair_model.hpp"
#include "runtime/tokenizer/detail/unicode.hpp"

namespace gpunode::tokenizer::detail {
namespace {

using Made = Result<std::unique_ptr<WordModel>>;

class WordPieceModel final : public WordModel {
 public:
  static Made open(const Json& json, const Vocabulary& vocabulary, const Merges&) {
    std::unique_ptr<WordPieceModel> model(new WordPieceModel(vocabulary));
    model->unknown_ = vocabulary.find(text(json, "unk_token", "[UNK]"));
    if (model->unknown_ == kNone) return {ErrorCode::invalid_argument, "its unk_token is no token"};
    model->prefix_ = text(json, "continuing_subword_prefix", "##");
    const Json& most = field(json, "max_input_chars_per_word");
    if (most.is_number_unsigned()) model->most_characters_ = most.get<std::size_t>();
    return std::unique_ptr<WordModel>(std::move(model));
  }

  Result<void> tokenize(std::string_view word, std::vector<Token>& out) const override {
    const std::vector<std::size_t> ends = ends_in(word);
    const std::size_t before = out.size();
    std::size_t done = 0;  // characters
    bool known = ends.size() <= most_characters_;
    while (known && done < ends.size()) {
      const std::size_t begin = done == 0 ? 0 : ends[done - 1];
      Token token = kNone;
      std::size_t last = ends.size();
      for (; last > done && token == kNone; --last) {
        std::string part(word.substr(begin, ends[last - 1] - begin));
        if (done > 0) part.insert(0, prefix_);
        token = vocabulary_.find(part);
      }
      known = token != kNone;
      if (known) out.push_back(token);
      done = last + 1;
    }
    if (known) return {};
    out.resize(before);
    out.push_back(unknown_);
    return {};
  }

 private:
  explicit WordPieceModel(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}
  // Where each character ends.
  static std::vector<std::size_t> ends_in(std::string_view word) {
    std::vector<std::size_t> ends;
    for (std::size_t at = 0; at < word.size(); ends.push_back(at))
      at += character_length(word.substr(at));
    return ends;
  }

  const Vocabulary& vocabulary_;
  Token unknown_ = kNone;
  std::string prefix_;
  std::size_t most_characters_ = 100;
};

class WordLevelModel final : public WordModel {
 public:
  static Made open(const Json& json, const Vocabulary& vocabulary, const Merges&) {
    return std::unique_ptr<WordModel>(new WordLevelModel(vocabulary, text(json, "unk_token")));
  }

  Result<void> tokenize(std::string_view word, std::vector<Token>& out) const override {
    const Token token = vocabulary_.find(word);
    out.push_back(token == kNone ? unknown_ : token);
    if (out.back() == kNone)
      return {ErrorCode::unsupported, "the word '" + std::string(word) + "' is no token"};
    return {};
  }

 private:
  WordLevelModel(const Vocabulary& vocabulary, const std::string& unknown)
      : vocabulary_(vocabulary), unknown_(vocabulary.find(unknown)) {}
  const Vocabulary& vocabulary_;
  Token unknown_;
};

}  // namespace

Made make_word_model(const Json& json, const Vocabulary& vocabulary, const Merges& merges) {
  static const std::map<std::string, Made (*)(const Json&, const Vocabulary&, const Merges&)>
      kKinds{{"BPE", BytePairModel::open},
             {"WordLevel", WordLevelModel::open},
             {"WordPiece", WordPieceModel::open}};
  std::string kind = kind_of(json);
  if (kind.empty()) kind = merges.empty() ? "WordPiece" : "BPE";  // of older files
  const auto found = kKinds.find(kind);
  if (found == kKinds.end()) return not_known("model", kind);
  return found->second(json, vocabulary, merges);
}

}  // namespace gpunode::tokenizer::detail
