#include "runtime/tokenizer/detail/added_tokens.hpp"

#include <algorithm>

#include "runtime/tokenizer/detail/unicode.hpp"

namespace gpunode::tokenizer::detail {
namespace {

std::size_t leading_space(std::string_view text) {
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view next = rest;
    if (!is_whitespace(take_character(next))) break;
    rest = next;
  }
  return text.size() - rest.size();
}

// Where the last character begins.
std::size_t last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

std::size_t without_trailing_space(std::string_view text) {
  while (!text.empty()) {
    const std::size_t at = last_character(text);
    std::string_view last = text.substr(at);
    if (!is_whitespace(take_character(last))) break;
    text = text.substr(0, at);
  }
  return text.size();
}

bool begins_with_word(std::string_view text) {
  return !text.empty() && is_word(take_character(text));
}

bool ends_with_word(std::string_view text) {
  return !text.empty() && begins_with_word(text.substr(last_character(text)));
}

}  // namespace

Result<AddedTokens> AddedTokens::read(const Json& list, const Vocabulary& vocabulary,
                                      const Normalizer& normalise) {
  AddedTokens made;
  for (const Json& one : list) {
    AddedToken token;
    token.text = text(one, "content");
    const Json& number = field(one, "id");
    constexpr std::uint64_t kMost = 1u << 22;
    if (token.text.empty() || !number.is_number_unsigned() || number.get<std::uint64_t>() > kMost)
      return {ErrorCode::invalid_argument, "an added token has no content, or no id"};
    const Token known = vocabulary.find(token.text);
    token.token = known != kNone ? known : number.get<Token>();
    token.single_word = flag(one, "single_word", false);
    token.takes_left = flag(one, "lstrip", false);
    token.takes_right = flag(one, "rstrip", false);
    token.special = flag(one, "special", false);
    token.normalised = flag(one, "normalized", !token.special);
    if (made.find(token.text) != kNone) continue;
    const int index = static_cast<int>(made.tokens_.size());
    auto wanted = token.normalised ? normalise(token.text) : Result<std::string>(token.text);
    if (!wanted) return wanted.error();
    if (!wanted->empty()) plant(token.normalised ? made.after_ : made.before_, *wanted, index);
    token.reads = *std::move(wanted);
    made.by_number_.emplace(token.token, index);
    if (token.special) made.special_.insert(token.token);
    made.tokens_.push_back(std::move(token));
  }
  return made;
}

const AddedToken* AddedTokens::find(Token token) const {
  const auto found = by_number_.find(token);
  return found == by_number_.end() ? nullptr : &tokens_[static_cast<std::size_t>(found->second)];
}

Token AddedTokens::find(const std::string& text) const {
  const auto found = std::ranges::find(tokens_, text, &AddedToken::text);
  return found == tokens_.end() ? kNone : found->token;
}

void AddedTokens::plant(Tree& tree, const std::string& text, int index) {
  std::size_t at = 0;
  for (const char letter : text) {
    const auto [next, fresh] =
        tree[at].next.emplace(static_cast<unsigned char>(letter), static_cast<int>(tree.size()));
    at = static_cast<std::size_t>(next->second);
    if (fresh) tree.emplace_back();
  }
  if (tree[at].ends < 0) tree[at].ends = index;
}

std::pair<int, std::size_t> AddedTokens::longest(const Tree& tree, std::string_view text,
                                                 bool special) const {
  std::pair<int, std::size_t> best{-1, 0};
  const Node* node = &tree.front();
  for (std::size_t length = 1; length <= text.size(); ++length) {
    const auto next = node->next.find(static_cast<unsigned char>(text[length - 1]));
    if (next == node->next.end()) break;
    node = &tree[static_cast<std::size_t>(next->second)];
    const bool counts =
        node->ends >= 0 && (special || !tokens_[static_cast<std::size_t>(node->ends)].special);
    if (counts) best = {node->ends, length};
  }
  return best;
}

std::vector<AddedTokens::Match> AddedTokens::matches(const Tree& tree, std::string_view text,
                                                     bool special) const {
  std::vector<Match> made;
  if (tree.size() == 1) return made;
  for (std::size_t at = 0, taken = 0; at < text.size();) {
    const auto [index, length] = longest(tree, text.substr(at), special);
    if (index < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<std::size_t>(index)];
    std::size_t begin = at, end = at + length;
    at = end;
    if (token.single_word &&
        (ends_with_word(text.substr(0, begin)) || begins_with_word(text.substr(end))))
      continue;
    if (token.takes_left) begin = std::max(without_trailing_space(text.substr(0, begin)), taken);
    if (token.takes_right) end += leading_space(text.substr(end));
    made.push_back({begin, end, token.token});
    taken = end;
    at = std::max(at, end);
  }
  return made;
}

void AddedTokens::cut_by(const std::vector<Match>& matches, const Piece& piece, Pieces& out) {
  std::size_t at = 0;
  const auto keep_until = [&](std::size_t end) {
    if (at < end) out.push_back({piece.text.substr(at, end - at), piece.first && at == 0, kNone});
  };
  for (const Match& match : matches) {
    keep_until(match.begin);
    out.push_back({piece.text.substr(match.begin, match.end - match.begin),
                   piece.first && match.begin == 0, match.token});
    at = match.end;
  }
  keep_until(piece.text.size());
}

Result<Pieces> AddedTokens::cut(std::string_view text, const Normalizer& normalise,
                                bool special) const {
  Pieces raw, made;
  cut_by(matches(before_, text, special), {std::string(text), true, kNone}, raw);
  for (Piece& piece : raw) {
    if (piece.token != kNone) {
      made.push_back(std::move(piece));
      continue;
    }
    auto normal = normalise(std::move(piece.text));
    if (!normal) return normal.error();
    piece.text = *std::move(normal);
    cut_by(matches(after_, piece.text, special), piece, made);
  }
  return made;
}

}  // namespace gpunode::tokenizer::detail
