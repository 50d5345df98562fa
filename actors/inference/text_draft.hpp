// A smaller model of the same tokens guesses how texts go on, so that the model itself reads several
// tokens of a text in a pass, for little more than the price of one where its weights are what is read.
// The guesses decide nothing: behind each of them the model's own token is chosen as it would be without
// them, from the same scores and with the random number of that place (token_sampler.hpp), and a guess
// counts where it is that token; what was read behind the first one that is not is forgotten. So a text of
// a seed is the same with and without a draft, whatever is guessed, how much and when, and has the model's
// distribution because it is the model's draw. The draft draws with the same number, penalties and
// filters: distributions that are close mostly draw alike. Accepting with the chance min(1, p/q) would
// accept more where they are not, but its texts would depend on when there was a guess.
// How many tokens are guessed follows the share of them that was right lately. No mailbox; owned by an engine.
// Sources: Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", 2023; Chen et
// al., "Accelerating Large Language Model Decoding with Speculative Sampling", 2023.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "actors/inference/kv_pages.hpp"
#include "actors/inference/text_batch.hpp"
#include "kernels/model/decoder.hpp"
#include "kernels/model/token_sampler.hpp"

namespace gpunode::inference {

// How many tokens of a text are guessed next. The last of n is worth reading while all of them are
// right with a chance of at least kWorth: with the share s of right ones, n = log(kWorth) / log(s).
class GuessCount {
 public:
  static constexpr std::size_t kMost = 8;
  static constexpr double kWorth = 0.4;
  // After so many tokens without a guess, as none was worth it, one is tried again.
  static constexpr std::size_t kTryAgain = 32;

  // 0: the text is read without any now.
  std::size_t next();
  // So many of those that were guessed were right, before the first that was not.
  void on_judged(std::size_t guessed, std::size_t right);
  double share() const { return share_; }

 private:
  double share_ = 0.8;       // of those that were looked at, the newer the heavier
  std::size_t without_ = 0;  // tokens since the last guess
};

class TextDraft {
 public:
  // Beyond so many texts under way the model is busy with those: guesses that are wrong cost them time.
  static constexpr std::size_t kMostTexts = 4;
  struct Options {
    const model::Model* model = nullptr;
    std::size_t texts = kMostTexts;  // guessed together, at most
    std::uint64_t cache_bytes = std::uint64_t{1} << 28;
  };
  // `program` has its weights and outlives this. Fails with: what making a decoder fails with;
  // unsupported (one whose texts cannot step back).
  static Result<std::unique_ptr<TextDraft>> open(model::Program& program, const Options& options);

  struct Order {
    TextBatch::Id id = 0;
    std::span<const model::Token> tokens;  // all of the text that is looked at, one at least
    const model::TokenSampler* sampler = nullptr;
    std::size_t most = 0;  // tokens to guess, one at least
  };
  // What each may go on with, at most Options::texts; nothing of those that are not worth a guess, longer than the
  // draft reads, without room in its cache, or of which it has not read enough yet: 64 tokens a call.
  // Fails with: what reading fails with.
  Result<std::vector<std::vector<model::Token>>> guess(std::span<const Order> orders);
  void on_judged(TextBatch::Id id, std::size_t guessed, std::size_t right);
  // The text is over.
  void forget(TextBatch::Id id);

  struct Counts {
    std::uint64_t guessed = 0, right = 0;
  };
  const Counts& counts() const { return counts_; }
  std::size_t most_texts() const { return options_.texts; }

 private:
  struct Text {
    std::vector<model::Token> read;  // whose keys and values are in the pages
    std::vector<KvPages::Page> pages;
    GuessCount count;
  };
  struct Work {
    const Order* order = nullptr;
    Text* text = nullptr;
    std::size_t place = 0, wanted = 0;
    std::span<const model::Token> unread;
    std::optional<model::TokenSampler> sampler;
  };
  TextDraft(const Options& options, std::unique_ptr<model::Decoder> decoder);
  std::vector<Work> plan(std::span<const Order> orders);
  bool get_pages(Text& text, std::size_t positions, std::span<const Order> orders);
  void release(Text& text);
  Result<void> read(std::span<const Work> works);

  Options options_;
  std::unique_ptr<model::Decoder> decoder_;
  KvPages pages_;
  std::map<TextBatch::Id, Text> texts_;
  std::vector<float> scores_;
  Counts counts_;
};

}  // namespace gpunode::inference
