// Tokens that are found in a text as they are, before it is cut into words: the "added_tokens" of a
// tokenizer.json, those that control a model among them. At each place the longest counts.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime/tokenizer/detail/normalizer.hpp"
#include "runtime/tokenizer/detail/vocabulary.hpp"

namespace gpunode::tokenizer::detail {

struct AddedToken {
  Token token = kNone;
  std::string text, reads;   // as it was added, and as it stands in a normalised text
  bool single_word = false;  // not inside a word
  bool takes_left = false, takes_right = false;  // the spaces beside it
  bool normalised = false;                       // looked for in the text after normalisation
  bool special = false;  // controls the model; no part of a text that it writes
};

class AddedTokens {
 public:
  // Fails with: invalid_argument.
  static Result<AddedTokens> read(const Json& list, const Vocabulary& vocabulary,
                                  const Normalizer& normalise);

  // The text in pieces: tokens, and normalised text between them. Of no special tokens, if they are
  // to be taken as text. Fails with: what normalising fails with.
  Result<Pieces> cut(std::string_view text, const Normalizer& normalise, bool special) const;

  const std::vector<AddedToken>& all() const { return tokens_; }
  const AddedToken* find(Token token) const;
  Token find(const std::string& text) const;
  bool is_special(Token token) const { return special_.contains(token); }

 private:
  struct Node {  // of a tree of their letters
    std::map<unsigned char, int> next;
    int ends = -1;  // the index of the token that ends here
  };
  using Tree = std::vector<Node>;
  static void plant(Tree& tree, const std::string& text, int index);
  // What the longest token at this place is, as an index, and its length.
  std::pair<int, std::size_t> longest(const Tree& tree, std::string_view text, bool special) const;
  struct Match {
    std::size_t begin = 0, end = 0;
    Token token = kNone;
  };
  std::vector<Match> matches(const Tree& tree, std::string_view text, bool special) const;
  static void cut_by(const std::vector<Match>& matches, const Piece& piece, Pieces& out);

  std::vector<AddedToken> tokens_;
  std::map<Token, int> by_number_;
  std::set<Token> special_;
  Tree before_{Node{}}, after_{Node{}};  // normalisation
};

}  // namespace gpunode::tokenizer::detail
