#include "runtime/tokenizer/detail/decoder.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "runtime/base/utf8.hpp"
#include "runtime/tokenizer/detail/byte_letters.hpp"
#include "runtime/tokenizer/detail/normalizer.hpp"
#include "runtime/tokenizer/detail/pre_tokenizer.hpp"
#include "runtime/tokenizer/detail/unicode.hpp"

namespace gpunode::tokenizer::detail {
namespace {

using Made = Result<Decoder>;
constexpr const char* kReplacement = "\ufffd";

// A change of each text, told its place.
Decoder each(
    std::function<std::string(std::string text, std::size_t index, std::size_t count)> of) {
  return [of = std::move(of)](Texts tokens) -> Result<Texts> {
    for (std::size_t index = 0; index < tokens.size(); ++index)
      tokens[index] = of(std::move(tokens[index]), index, tokens.size());
    return tokens;
  };
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

Made byte_level(const Json&) {
  return Decoder([](const Texts& tokens) -> Result<Texts> {
    std::string bytes;
    for (const std::string& token : tokens) bytes += bytes_of_letters(token).value_or(token);
    return Texts{well_formed(bytes)};
  });
}

// The byte that a token as <0x0A> stands for.
std::optional<char> byte_named(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  unsigned value = 0;
  const char* const end = token.data() + 5;
  const auto read = std::from_chars(token.data() + 3, end, value, 16);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return static_cast<char>(value);
}

bool is_well_formed(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t length = utf8_length(bytes);
    if (length == 0) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

Made byte_fallback(const Json&) {
  return Decoder([](const Texts& tokens) -> Result<Texts> {
    Texts made;
    std::string bytes;  // that follow each other
    const auto end_bytes = [&] {
      if (is_well_formed(bytes)) {
        if (!bytes.empty()) made.push_back(bytes);
      } else {
        made.insert(made.end(), bytes.size(), kReplacement);
      }
      bytes.clear();
    };
    for (const std::string& token : tokens) {
      if (const auto byte = byte_named(token)) {
        bytes += *byte;
        continue;
      }
      end_bytes();
      made.push_back(token);
    }
    end_bytes();
    return made;
  });
}

Made fuse(const Json&) {
  return Decoder([](const Texts& tokens) -> Result<Texts> {
    std::string whole;
    for (const std::string& token : tokens) whole += token;
    return Texts{whole};
  });
}

std::size_t count_in(const Json& json, const char* key) {
  const Json& value = field(json, key);
  return value.is_number_unsigned() ? value.get<std::size_t>() : 0;
}

Made strip(const Json& json) {
  auto letter = required_text(json, "content");
  if (!letter || letter->empty())
    return Error{ErrorCode::invalid_argument, "a decoder of kind Strip has no content"};
  return each([letter = *letter, start = count_in(json, "start"), stop = count_in(json, "stop")](
                  std::string text, std::size_t, std::size_t) {
    std::string_view kept = text;
    for (std::size_t taken = 0; taken < start && kept.starts_with(letter); ++taken)
      kept.remove_prefix(letter.size());
    for (std::size_t taken = 0; taken < stop && kept.ends_with(letter); ++taken)
      kept.remove_suffix(letter.size());
    return std::string(kept);
  });
}

Made replace(const Json& json) {
  Json as_normalizer = json;
  as_normalizer["type"] = "Replace";
  auto change = make_normalizer(as_normalizer);
  if (!change) return change.error();
  return Decoder([change = *std::move(change)](Texts tokens) -> Result<Texts> {
    for (std::string& token : tokens) {
      auto changed = change(std::move(token));
      if (!changed) return changed.error();
      token = *std::move(changed);
    }
    return tokens;
  });
}

Made metaspace(const Json& json) {
  const std::string mark = text(json, "replacement", "\u2581");
  const bool before_first = prepend_scheme(json) != "never";
  return each([mark, before_first](std::string text, std::size_t index, std::size_t) {
    return replaced(std::move(text), mark, index == 0 && before_first ? "" : " ");
  });
}

// Spaces as English has them around what its tokenizer took apart. Source: transformers'
// clean_up_tokenization.
std::string tidied(std::string text) {
  constexpr std::pair<const char*, const char*> kSpaces[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kSpaces) text = replaced(std::move(text), from, to);
  return text;
}

Made word_piece(const Json& json) {
  const std::string prefix = text(json, "prefix", "##");
  return each([prefix, tidy = flag(json, "cleanup", true)](std::string text, std::size_t index,
                                                           std::size_t) {
    if (index > 0 && text.starts_with(prefix) && !prefix.empty())
      text.erase(0, prefix.size());
    else if (index > 0)
      text.insert(0, 1, ' ');
    return tidy ? tidied(std::move(text)) : text;
  });
}

Made byte_pair(const Json& json) {
  const std::string suffix = text(json, "suffix", "</w>");
  if (suffix.empty()) return fuse(json);
  return each([suffix](std::string text, std::size_t index, std::size_t count) {
    return replaced(std::move(text), suffix, index + 1 == count ? "" : " ");
  });
}

Made sequence(const Json& json) {
  auto steps = all_made(field(json, "decoders"), make_decoder);
  if (!steps) return steps.error();
  return Decoder([steps = *std::move(steps)](Texts tokens) -> Result<Texts> {
    for (const Decoder& step : steps) {
      auto done = step(std::move(tokens));
      if (!done) return done;
      tokens = *std::move(done);
    }
    return tokens;
  });
}

}  // namespace

Result<Decoder> make_decoder(const Json& json) {
  if (json.is_null())
    return each([](std::string text, std::size_t index, std::size_t) {
      return index == 0 ? text : " " + text;
    });
  static const Kinds<Made> kKinds{{"BPEDecoder", byte_pair}, {"ByteFallback", byte_fallback},
                                  {"ByteLevel", byte_level}, {"Fuse", fuse},
                                  {"Metaspace", metaspace},  {"Replace", replace},
                                  {"Sequence", sequence},    {"Strip", strip},
                                  {"WordPiece", word_piece}};
  return made_by_kind(kKinds, "decoder", json);
}

std::optional<std::string> ByteRule::of(const std::string& token) const {
  if (letters) return bytes_of_letters(token).value_or(token);
  const auto byte = names ? byte_named(token) : std::nullopt;
  return byte ? std::optional(std::string(1, *byte)) : std::nullopt;
}

ByteRule byte_rule_of(const Json& decoder) {
  const std::string kind = kind_of(decoder);
  ByteRule rule;
  rule.letters = kind == "ByteLevel";
  rule.names = kind == "ByteFallback";
  // These change a token by what stands behind it.
  rule.compose = kind != "BPEDecoder" && kind != "WordPiece" &&
                 !(kind == "Strip" && count_in(decoder, "stop") > 0);
  if (kind != "Sequence") return rule;
  for (const Json& step : field(decoder, "decoders")) {
    const ByteRule of_step = byte_rule_of(step);
    rule.letters |= of_step.letters;
    rule.names |= of_step.names;
    rule.compose &= of_step.compose;
  }
  return rule;
}

std::string well_formed(std::string_view bytes) {
  std::string made;
  made.reserve(bytes.size());
  while (!bytes.empty()) {
    if (const std::size_t length = utf8_length(bytes)) {
      made += bytes.substr(0, length);
      bytes.remove_prefix(length);
      continue;
    }
    // As much of it as a character could begin with: what one more byte, or two, would make one.
    std::size_t length = 1;
    const auto could_go_on = [&](std::size_t so_far) {
      for (const char* more : {"\x80", "\x90", "\xa0", "\x80\x80", "\x90\x80", "\xa0\x80"})
        if (utf8_length(std::string(bytes.substr(0, so_far)) + more)) return true;
      return false;
    };
    while (length < 3 && length < bytes.size() && could_go_on(length + 1)) ++length;
    made += kReplacement;
    bytes.remove_prefix(length);
  }
  return made;
}

}  // namespace gpunode::tokenizer::detail
