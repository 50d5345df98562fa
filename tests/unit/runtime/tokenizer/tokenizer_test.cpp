#include "runtime/tokenizer/tokenizer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/tokenizer/text_stream.hpp"

namespace gpunode::tokenizer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

Json numbered(const std::vector<std::string>& texts) {
  auto vocabulary = Json::object();
  for (const std::string& text : texts) vocabulary[text] = vocabulary.size();
  return vocabulary;
}

Json added(int id, const std::string& text, Json more = Json::object()) {
  Json token{{"id", id}, {"content", text}, {"special", true}, {"normalized", false}};
  token.update(more);
  return token;
}

// Merges words of a, b and c; the space stands as in GPT-2's vocabulary.
Json byte_level() {
  return {{"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model",
           {{"type", "BPE"},
            {"vocab", numbered({"a", "b", "c", "Ġ", "ab", "abc", "Ġab", "bc", "Ã", "©"})},
            {"merges", {"a b", "b c", "ab c", "Ġ ab"}}}}};
}

// Characters that it has not are told by their bytes.
Json with_bytes() {
  std::vector<std::string> texts{"<unk>", "<s>", "▁", "a", "▁a"};
  for (const char* byte : {"<0xC3>", "<0xA9>", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>"})
    texts.emplace_back(byte);
  return {{"normalizer",
           {{"type", "Sequence"},
            {"normalizers",
             {{{"type", "Prepend"}, {"prepend", "▁"}},
              {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}}}}},
          {"decoder",
           {{"type", "Sequence"},
            {"decoders",
             {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
              {{"type", "ByteFallback"}},
              {{"type", "Fuse"}},
              {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", {{{"SpecialToken", {{"id", "<s>"}}}}, {{"Sequence", {{"id", "A"}}}}}},
            {"special_tokens", {{"<s>", {{"ids", {1}}}}}}}},
          {"added_tokens", {added(0, "<unk>"), added(1, "<s>")}},
          {"model",
           {{"type", "BPE"},
            {"byte_fallback", true},
            {"unk_token", "<unk>"},
            {"fuse_unk", true},
            {"vocab", numbered(texts)},
            {"merges", {"▁ a"}}}}};
}

Json word_piece() {
  return {{"normalizer", {{"type", "BertNormalizer"}, {"lowercase", true}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}}},
          {"post_processor",
           {{"type", "BertProcessing"}, {"cls", {"[CLS]", 1}}, {"sep", {"[SEP]", 2}}}},
          {"added_tokens",
           {added(0, "[UNK]"), added(1, "[CLS]"), added(2, "[SEP]"), added(3, "[MASK]")}},
          {"model",
           {{"type", "WordPiece"},
            {"unk_token", "[UNK]"},
            {"vocab", numbered({"[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##able", "##a", "cafe",
                                "!", "東", "京"})}}}};
}

std::shared_ptr<const Tokenizer> made(const Json& json) {
  auto tokenizer = Tokenizer::parse(json.dump());
  EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().message();
  return tokenizer ? *tokenizer : nullptr;
}

std::vector<std::string> texts(const Tokenizer& tokenizer, std::string_view text,
                               EncodeOptions options = {}) {
  const auto tokens = tokenizer.encode(text, options);
  EXPECT_TRUE(tokens.has_value()) << tokens.error().message();
  std::vector<std::string> made;
  if (tokens)
    for (const Token token : *tokens) made.emplace_back(tokenizer.text_of(token));
  return made;
}

std::string there_and_back(const Tokenizer& tokenizer, std::string_view text) {
  const auto tokens = tokenizer.encode(text);
  return tokens ? *tokenizer.decode(*tokens) : tokens.error().message();
}

Error refusal(const Json& json) {
  const auto tokenizer = Tokenizer::parse(json.dump());
  EXPECT_FALSE(tokenizer.has_value());
  return tokenizer ? Error{} : tokenizer.error();
}

TEST(TokenizerTest, merges_earlier_pairs_first_and_never_over_words) {
  const auto tokenizer = made(byte_level());
  EXPECT_THAT(texts(*tokenizer, "abc"), ElementsAre("abc"));
  EXPECT_THAT(texts(*tokenizer, "bcab"), ElementsAre("bc", "ab"));
  EXPECT_THAT(texts(*tokenizer, "abcab ab"), ElementsAre("abc", "ab", "Ġab"));
  EXPECT_THAT(texts(*tokenizer, "aab"), ElementsAre("a", "ab"));
  EXPECT_THAT(texts(*tokenizer, ""), ElementsAre());
}

TEST(TokenizerTest, reads_merges_in_either_form) {
  Json newer = byte_level();
  newer["model"]["merges"] = Json::parse(R"([["a", "b"], ["b", "c"], ["ab", "c"], ["Ġ", "ab"]])");
  EXPECT_THAT(texts(*made(newer), "abc ab"), ElementsAre("abc", "Ġab"));
}

TEST(TokenizerTest, takes_a_whole_word_first_where_merges_are_to_be_ignored) {
  Json file = byte_level();
  file["model"]["merges"] = {"a b"};
  EXPECT_THAT(texts(*made(file), "abc"), ElementsAre("ab", "c"));
  file["model"]["ignore_merges"] = true;
  EXPECT_THAT(texts(*made(file), "abc"), ElementsAre("abc"));
}

TEST(TokenizerTest, gives_back_bytes_as_text) {
  const auto tokenizer = made(byte_level());
  EXPECT_EQ(there_and_back(*tokenizer, "abc é"), "abc é");
  const std::vector<Token> half{*tokenizer->token_of("Ã")};
  EXPECT_EQ(*tokenizer->decode(half), "\ufffd");
}

TEST(TokenizerTest, tells_unknown_characters_by_their_bytes_or_not_at_all) {
  const auto tokenizer = made(with_bytes());
  EXPECT_THAT(texts(*tokenizer, "a é"), ElementsAre("<s>", "▁a", "▁", "<0xC3>", "<0xA9>"));
  EXPECT_THAT(texts(*tokenizer, "xyza"), ElementsAre("<s>", "▁", "<unk>", "a"));
  EXPECT_EQ(there_and_back(*tokenizer, "a é😀"), "a é😀");
}

TEST(TokenizerTest, says_what_each_token_adds_to_a_text) {
  const auto over_bytes = made(byte_level());
  EXPECT_TRUE(over_bytes->is_made_of_bytes());
  EXPECT_EQ(over_bytes->bytes_of(6), " ab");
  EXPECT_EQ(over_bytes->bytes_of(8), "\xc3") << "half a character";
  EXPECT_EQ(over_bytes->bytes_of(100), "");
  const auto of_pieces = made(with_bytes());
  EXPECT_TRUE(of_pieces->is_made_of_bytes());
  EXPECT_EQ(of_pieces->bytes_of(4), " a") << "also where a first one would lose its space";
  EXPECT_EQ(of_pieces->bytes_of(5), "\xc3");
  EXPECT_EQ(of_pieces->bytes_of(1), "<s>") << "a special one";
  Json of_words = byte_level();
  of_words["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  EXPECT_FALSE(made(of_words)->is_made_of_bytes()) << "spaces go by what stands beside them";
  EXPECT_EQ(Tokenizer::of_bytes()->bytes_of(0xe2), "\xe2");
}

TEST(TokenizerTest, surrounds_a_text_only_where_asked_to) {
  const auto tokenizer = made(with_bytes());
  EXPECT_THAT(texts(*tokenizer, "a", {.surrounded = false}), ElementsAre("▁a"));
  EXPECT_EQ(*tokenizer->decode(std::vector<Token>{1, 4}), "a");
  EXPECT_EQ(*tokenizer->decode(std::vector<Token>{1, 4}, true), "<s> a");
}

TEST(TokenizerTest, takes_special_tokens_in_a_text_as_letters_where_told_so) {
  const auto tokenizer = made(with_bytes());
  EXPECT_THAT(texts(*tokenizer, "<s>a", {.surrounded = false}), ElementsAre("<s>", "▁a"));
  EXPECT_THAT(texts(*tokenizer, "<s>a", {.surrounded = false, .special_tokens = false}),
              ElementsAre("▁", "<unk>", "a"));
}

TEST(TokenizerTest, cuts_words_into_the_longest_pieces) {
  const auto tokenizer = made(word_piece());
  EXPECT_THAT(texts(*tokenizer, "Unable\tCAFÉ!"),
              ElementsAre("[CLS]", "un", "##able", "cafe", "!", "[SEP]"));
  EXPECT_THAT(texts(*tokenizer, "unx [MASK] 東京"),
              ElementsAre("[CLS]", "[UNK]", "[MASK]", "東", "京", "[SEP]"));
  EXPECT_EQ(there_and_back(*tokenizer, "unable cafe !"), "unable cafe!");
}

TEST(TokenizerTest, an_added_token_takes_spaces_and_keeps_out_of_words_as_it_says) {
  Json file = byte_level();
  file["added_tokens"] = {added(20, "<x>", {{"lstrip", true}, {"rstrip", true}}),
                          added(21, "zz", {{"single_word", true}, {"special", false}}),
                          added(22, "<x><y>")};
  const auto tokenizer = made(file);
  EXPECT_THAT(texts(*tokenizer, "a  <x>  b"), ElementsAre("a", "<x>", "b"));
  EXPECT_THAT(texts(*tokenizer, "zz zza a zz"), ElementsAre("zz", "Ġ", "a", "Ġ", "a", "Ġ", "zz"));
  EXPECT_THAT(texts(*tokenizer, "a<x><y>b"), ElementsAre("a", "<x><y>", "b"));
  EXPECT_EQ(tokenizer->vocabulary(), 23u);
  EXPECT_TRUE(tokenizer->is_special(20));
  EXPECT_FALSE(tokenizer->is_special(21));
}

TEST(TokenizerTest, a_metaspace_marks_the_beginning_of_the_whole_text_alone) {
  Json file{
      {"pre_tokenizer", {{"type", "Metaspace"}, {"prepend_scheme", "first"}, {"split", false}}},
      {"decoder", {{"type", "Metaspace"}, {"prepend_scheme", "first"}}},
      {"added_tokens", {added(9, "<x>")}},
      {"model", {{"type", "BPE"}, {"vocab", numbered({"▁", "a", "▁a"})}, {"merges", {"▁ a"}}}}};
  const auto tokenizer = made(file);
  EXPECT_THAT(texts(*tokenizer, "a<x>a a"), ElementsAre("▁a", "<x>", "a", "▁a"));
  EXPECT_EQ(there_and_back(*tokenizer, "a a"), "a a");
}

TEST(TokenizerTest, splits_by_a_pattern_and_does_with_it_what_it_is_told) {
  const auto words = [](const std::string& behaviour, bool invert = false) {
    Json file{{"pre_tokenizer",
               {{"type", "Split"},
                {"pattern", {{"Regex", "-+"}}},
                {"behavior", behaviour},
                {"invert", invert}}},
              {"model",
               {{"type", "WordLevel"},
                {"vocab", numbered({"?", "a", "b", "-", "--", "a-", "-b", "--b", "a--"})},
                {"unk_token", "?"}}}};
    return texts(*made(file), "a--b-a");
  };
  EXPECT_THAT(words("Removed"), ElementsAre("a", "b", "a"));
  EXPECT_THAT(words("Isolated"), ElementsAre("a", "--", "b", "-", "a"));
  EXPECT_THAT(words("MergedWithPrevious"), ElementsAre("a--", "?", "a"));
  EXPECT_THAT(words("MergedWithNext"), ElementsAre("a", "--b", "?"));
  EXPECT_THAT(words("Removed", true), ElementsAre("--", "-"));
}

TEST(TokenizerTest, a_stream_gives_whole_characters_and_in_all_the_same_text) {
  const auto tokenizer = made(with_bytes());
  const auto tokens = *tokenizer->encode("a é😀 a");
  TextStream stream(tokenizer);
  std::string all;
  for (const Token token : tokens) {
    const auto more = stream.add(token);
    ASSERT_TRUE(more.has_value());
    EXPECT_EQ(more->find("\ufffd"), std::string::npos);
    all += *more;
  }
  all += *stream.end();
  EXPECT_EQ(all, "a é😀 a");
  EXPECT_EQ(*stream.add(*tokenizer->token_of("<0xC3>")), "");
  EXPECT_EQ(*stream.end(), "\ufffd");
}

TEST(TokenizerTest, a_stream_that_goes_on_from_a_text_keeps_the_space_before_its_first_word) {
  const auto tokenizer = made(with_bytes());
  const auto tokens = *tokenizer->encode("a é a");
  for (std::size_t before = 0; before < tokens.size(); ++before) {
    TextStream stream(tokenizer);
    const std::span<const Token> all(tokens);
    ASSERT_TRUE(stream.go_on_from(all.first(before)));
    std::string text = *tokenizer->decode(all.first(before));
    if (text.find("\ufffd") != std::string::npos) continue;  // no text ends within a character
    for (const Token token : all.subspan(before)) text += *stream.add(token);
    EXPECT_EQ(text + *stream.end(), "a é a") << before;
  }
}

TEST(TokenizerTest, a_stream_does_not_hold_back_for_ever_what_is_no_text) {
  const auto tokenizer = made(byte_level());
  const Token half = *tokenizer->token_of("Ã");
  TextStream stream(tokenizer);
  std::string all;
  for (int i = 0; i < 20'000; ++i) all += *stream.add(half);
  EXPECT_GT(all.size(), 19'000u);
  const auto tokens = *tokenizer->encode("abc");
  for (const Token token : tokens) all += *stream.add(token);
  EXPECT_TRUE(all.ends_with("\ufffdabc"));
}

TEST(TokenizerTest, refuses_by_name_what_it_does_not_know) {
  Json file = byte_level();
  file["model"]["type"] = "Unigram";
  EXPECT_EQ(refusal(file).code, ErrorCode::unsupported);
  EXPECT_THAT(refusal(file).detail, HasSubstr("Unigram"));
  for (const char* part : {"normalizer", "pre_tokenizer", "decoder", "post_processor"}) {
    file = byte_level();
    file[part] = {{"type", "Lindenmayer"}};
    EXPECT_EQ(refusal(file).code, ErrorCode::unsupported) << part;
    EXPECT_THAT(refusal(file).detail, HasSubstr("Lindenmayer"));
  }
  file = byte_level();
  file["model"]["dropout"] = 0.1;
  EXPECT_EQ(refusal(file).code, ErrorCode::unsupported);
}

TEST(TokenizerTest, refuses_files_that_make_no_sense) {
  EXPECT_EQ(Tokenizer::parse("{").error().code, ErrorCode::corrupted);
  EXPECT_EQ(Tokenizer::parse("[]").error().code, ErrorCode::corrupted);
  const auto change = [](const std::function<void(Json&)>& by) {
    Json file = byte_level();
    by(file);
    return refusal(file).code;
  };
  EXPECT_EQ(change([](Json& file) { file["model"]["merges"] = {"ab"}; }), ErrorCode::corrupted);
  EXPECT_EQ(change([](Json& file) { file["model"]["vocab"]["a"] = -1; }), ErrorCode::corrupted);
  EXPECT_EQ(change([](Json& file) { file["model"]["vocab"]["a"] = 1u << 31; }),
            ErrorCode::corrupted);
  EXPECT_EQ(change([](Json& file) { file["model"]["merges"].push_back("a x"); }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(change([](Json& file) {
              file["added_tokens"] = {{{"content", "x"}}};
            }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(change([](Json& file) {
              file["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}};
            }),
            ErrorCode::invalid_argument);
}

TEST(TokenizerTest, refuses_text_that_is_no_utf8) {
  const auto tokens = made(byte_level())->encode("ab\xff");
  ASSERT_FALSE(tokens.has_value());
  EXPECT_EQ(tokens.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(tokens.error().detail, HasSubstr("byte 2"));
}

TEST(TokenizerTest, gives_up_on_an_expression_that_would_take_for_ever) {
  Json file = byte_level();
  file["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "(a|a)*$"}}}};
  const auto tokens = made(file)->encode(std::string(60, 'a') + "b");
  ASSERT_FALSE(tokens.has_value());
  EXPECT_EQ(tokens.error().code, ErrorCode::resource_exhausted);
}

// A long word, as a text of spaces is to a vocabulary without words, takes no quadratic time.
TEST(TokenizerTest, tokenizes_a_long_word) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "abc";
  EXPECT_EQ(made(byte_level())->encode(text)->size(), 100'000u);
}

TEST(TokenizerTest, refuses_a_text_that_surely_has_too_many_tokens) {
  const auto tokenizer = made(byte_level());
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "abc ab ";
  for (const std::size_t most : {10u, 100u}) {
    const auto tokens = tokenizer->encode(text, {.most = most});
    ASSERT_FALSE(tokens);
    EXPECT_EQ(tokens.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(tokens.error().detail, HasSubstr("more than " + std::to_string(most) + " tokens"));
  }
  EXPECT_EQ(tokenizer->encode("abc", {.most = 1})->size(), 1u);
  EXPECT_EQ(tokenizer->encode(text, {.most = 100'000})->size(), tokenizer->encode(text)->size());
}

}  // namespace
}  // namespace gpunode::tokenizer
