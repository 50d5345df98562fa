#include "runtime/tokenizer/detail/byte_pair_model.hpp"

#include <queue>

#include "runtime/tokenizer/detail/unicode.hpp"

namespace gpunode::tokenizer::detail {
namespace {

std::uint64_t key_of(Token left, Token right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

std::string byte_name(unsigned char byte) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  return std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 15] + ">";
}

}  // namespace

struct BytePairModel::Symbol {
  Token token = kNone;  // kNone: joined to the one before
  int previous = -1, next = -1;
};

Result<std::unique_ptr<WordModel>> BytePairModel::open(const Json& json,
                                                       const Vocabulary& vocabulary,
                                                       const Merges& merges) {
  std::unique_ptr<BytePairModel> model(new BytePairModel(vocabulary));
  model->unknown_ = text(json, "unk_token");
  model->prefix_ = text(json, "continuing_subword_prefix");
  model->suffix_ = text(json, "end_of_word_suffix");
  model->fuse_unknown_ = flag(json, "fuse_unk", false);
  model->byte_fallback_ = flag(json, "byte_fallback", false);
  model->ignore_merges_ = flag(json, "ignore_merges", false);
  const Json& dropout = field(json, "dropout");
  if (dropout.is_number() && dropout.get<double>() > 0)
    return {ErrorCode::unsupported, "merges are left out at random (dropout), as no answer may be"};
  if (auto read = model->read_merges(merges); !read) return read.error();
  constexpr std::string_view kSpaceByte = "\u0120";  // as a vocabulary of all bytes has it
  model->leaves_out_ = !model->byte_fallback_ && vocabulary.find(kSpaceByte) == kNone &&
                       (model->unknown_.empty() || model->fuse_unknown_);
  for (std::size_t token = 0; token < vocabulary.size(); ++token)
    model->longest_ = std::max(model->longest_, vocabulary.text(static_cast<Token>(token)).size());
  return std::unique_ptr<WordModel>(std::move(model));
}

std::size_t BytePairModel::least_tokens(std::size_t bytes) const {
  if (leaves_out_) return 0;  // any number of unknown characters may be none, or one
  return (bytes + longest_ - 1) / longest_;
}

Result<void> BytePairModel::read_merges(const Merges& merges) {
  for (const auto& [left, right] : merges) {
    const std::string rest = right.starts_with(prefix_) ? right.substr(prefix_.size()) : right;
    const Token joined = vocabulary_.find(left + rest);
    const Token first = vocabulary_.find(left), second = vocabulary_.find(right);
    if (first == kNone || second == kNone || joined == kNone)
      return {ErrorCode::invalid_argument,
              "the merge of '" + left + "' and '" + right + "' is of what is no token"};
    merges_.insert_or_assign(key_of(first, second), Merge{merges_.size(), joined});
  }
  return {};
}

std::optional<std::vector<Token>> BytePairModel::bytes_of(std::string_view character) const {
  std::vector<Token> tokens;
  for (const char byte : character) {
    tokens.push_back(vocabulary_.find(byte_name(static_cast<unsigned char>(byte))));
    if (tokens.back() == kNone) return std::nullopt;
  }
  return tokens;
}

Result<std::vector<Token>> BytePairModel::characters_of(std::string_view word) const {
  std::vector<Token> made;
  bool unknown = false;  // the character before this one
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t length = character_length(word.substr(at));
    std::string character(word.substr(at, length));
    if (at > 0) character.insert(0, prefix_);
    at += length;
    if (at == word.size()) character += suffix_;
    const Token token = vocabulary_.find(character);
    if (token != kNone) {
      made.push_back(token);
      unknown = false;
      continue;
    }
    if (byte_fallback_)
      if (const auto bytes = bytes_of(character)) {
        made.insert(made.end(), bytes->begin(), bytes->end());
        unknown = false;
        continue;
      }
    if (unknown_.empty()) continue;  // such characters are left out
    if (unknown && fuse_unknown_) continue;
    made.push_back(vocabulary_.find(unknown_));
    if (made.back() == kNone)
      return {ErrorCode::unsupported, "its unk_token '" + unknown_ + "' is no token"};
    unknown = true;
  }
  return made;
}

const BytePairModel::Merge* BytePairModel::merge_of(Token left, Token right) const {
  const auto found = merges_.find(key_of(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void BytePairModel::join(const std::vector<Token>& characters, std::vector<Token>& out) const {
  struct Candidate {
    std::size_t rank;
    int left;  // the first of both
    Token joined;
    bool operator<(const Candidate& other) const {  // the top of a queue is its largest
      return std::pair(other.rank, other.left) < std::pair(rank, left);
    }
  };
  const int count = static_cast<int>(characters.size());
  std::vector<Symbol> symbols(characters.size());
  const auto symbol = [&](int at) -> Symbol& { return symbols[static_cast<std::size_t>(at)]; };
  std::priority_queue<Candidate> queue;
  const auto consider = [&](int left) {
    if (left < 0 || symbol(left).next < 0) return;
    const Merge* merge = merge_of(symbol(left).token, symbol(symbol(left).next).token);
    if (merge) queue.push({merge->rank, left, merge->joined});
  };
  for (int at = 0; at < count; ++at)
    symbol(at) = {characters[static_cast<std::size_t>(at)], at - 1, at + 1 < count ? at + 1 : -1};
  for (int at = 0; at < count; ++at) consider(at);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = symbol(best.left);
    if (left.token == kNone || left.next < 0) continue;
    Symbol& right = symbol(left.next);
    // One of both may be another by now.
    const Merge* merge = merge_of(left.token, right.token);
    if (!merge || merge->joined != best.joined) continue;
    left.token = best.joined;
    left.next = right.next;
    right.token = kNone;
    if (left.next >= 0) symbol(left.next).previous = best.left;
    consider(left.previous);
    consider(best.left);
  }
  for (int at = count > 0 ? 0 : -1; at >= 0; at = symbol(at).next) out.push_back(symbol(at).token);
}

Result<void> BytePairModel::tokenize(std::string_view word, std::vector<Token>& out) const {
  if (ignore_merges_)
    if (const Token token = vocabulary_.find(word); token != kNone) {
      out.push_back(token);
      return {};
    }
  const auto characters = characters_of(word);
  if (!characters) return characters.error();
  join(*characters, out);
  return {};
}

}  // namespace gpunode::tokenizer::detail
