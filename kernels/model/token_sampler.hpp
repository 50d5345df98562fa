// Chooses the next token from a model's scores. The choice is a function of (seed, number of the draw,
// scores, tokens so far), so a request repeated elsewhere gives the same text. Owned by whoever
// generates; no threads. Costs some passes over the scores, and sorts few of them, only where the options
// ask for it.
// Sources: Holtzman et al., "The Curious Case of Neural Text Degeneration", 2020 (top_p); Nguyen et
// al., "Min-p Sampling", 2024; Keskar et al., "CTRL", 2019 (repetition); OpenAI's API reference
// (presence and frequency). In the order that transformers applies them in.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "kernels/model/model.hpp"

namespace gpunode::model {

struct SamplingOptions {
  double temperature = 1.0;  // 0 = always the most probable token; higher = more varied
  int top_k = 0;             // only the k most probable tokens; 0 = all
  double top_p = 1;          // only the most probable ones that have this chance together; 1 = all
  double min_p = 0;          // only those with this share of the most probable one's chance
  // Off the score of a token that the text has by now, once, and for each time.
  double presence_penalty = 0, frequency_penalty = 0;
  // What the score of such a token, also of the prompt, is divided by, or multiplied where negative.
  double repetition_penalty = 1;
  std::uint64_t seed = 0;
};

class TokenSampler {
 public:
  explicit TokenSampler(SamplingOptions options) : options_(options) {}
  // Tokens of the prompt, of which repetition_penalty wants to know.
  void read(std::span<const Token> prompt);
  // Non-finite scores are never chosen; if all are, token 0.
  Token choose(std::span<const float> logits);

 private:
  struct Candidate {
    float score;
    Token token;
    float chance = 0;
    // Of two equal ones the smaller number is better.
    bool operator<(const Candidate& other) const {
      return score != other.score ? score > other.score : token < other.token;
    }
  };
  std::span<const float> penalised(std::span<const float> logits);
  void find_chances(std::span<const float> scores, float top);
  void keep_top_k(std::span<const float> scores);
  void keep_top_p(std::span<const float> scores);
  Token draw(std::uint64_t number);

  SamplingOptions options_;
  std::uint64_t draws_ = 0;
  std::map<Token, std::uint32_t> chosen_;  // how often
  std::vector<bool> seen_;                 // in the prompt or chosen
  std::vector<float> scores_;
  std::vector<float> chances_;  // of each token, by the best one's; 0: it is not to be drawn
  std::vector<double> sums_;    // of blocks of them
  std::vector<Candidate> candidates_;
};

}  // namespace gpunode::model
