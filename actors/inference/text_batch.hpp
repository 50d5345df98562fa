// Which of a model's texts are read next, and which of their tokens: every text under way by the token
// that it goes on with, and prompts in pieces beside them, so that a long one does not hold up the
// others (continuous batching with chunked prefill). Texts wait where as many are under way as fit
// into a pass or into the cache: those of higher priority go first, then those of whoever has had
// least, then those that came first. Nobody keeps places that others wait for and have fewer of: their text that
// would go last steps back. Where the cache is full the one that would go last steps back
// and is read again later; as its bits do not depend on that, it goes on as it would have.
// A text that is longer than the model reads goes on from its newer half.
// Pure; owned by a model's engine.
//   waiting  --next()-->  under way  --end()-->  gone
//      ^                      |
//      +--- cache is full ----+
// Sources: Yu et al., "Orca", 2022; Agrawal et al., "Sarathi-Serve", 2024.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/inference/kv_pages.hpp"
#include "kernels/model/decoder.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/result.hpp"

namespace gpunode::inference {

class TextBatch {
 public:
  struct Limits {
    std::size_t texts = 16;           // under way; a pass takes as many
    std::size_t rows = 256;           // of a pass
    std::size_t context = 0;          // positions of a text
    std::size_t page = 0, pages = 0;  // of the cache
    // Of prompts in a pass, where texts wait for their next token meanwhile.
    std::size_t prompt_rows = 64;
    std::size_t most_waiting = 256;
    std::size_t most_waiting_tokens = std::size_t{1} << 20;
  };
  struct Order {
    std::vector<model::Token> prompt;  // one token at least
    Time deadline{};
    std::uint32_t priority = 0;  // higher ones go first
    std::string client;          // among whom what there is is divided
    bool is_usual = true;        // how long it takes counts for those that wait
  };
  using Id = std::uint64_t;

  explicit TextBatch(const Limits& limits);

  // Fails with: resource_exhausted (as many wait as may, or it would not be begun before its
  // deadline: after how long to try again).
  Result<Id> add(Time now, Order order);
  // It is over, however it ended.
  void end(Time now, Id id);

  struct Part {
    Id id = 0;
    model::TextPart read;  // valid until anything is told to the batch
  };
  // What is to be read now; nothing: there are no texts.
  std::vector<Part> next(Time now);
  // These are read behind a part that next() told of, which is its text's last token, as guesses of what
  // comes next: as many as fit into the pass, the text and the pages that nobody holds. How many.
  std::size_t guess(Id id, std::span<const model::Token> tokens);
  // What is to be read, with the guesses: what comes behind each of those is to be scored too.
  std::vector<Part> parts() const;
  // The parts that next() or parts() told of were read.
  void on_read();
  // Nothing is left of what was read: all texts under way step back, and no beginning is known.
  void forget();
  // The text, all of which was read, goes on with this token. Whether it was guessed, so that what comes
  // behind it is known; where not, the text's guesses are as if they had never been read.
  bool on_token(Id id, model::Token token);

  // Whether any of it was chosen to be read.
  bool has_begun(Id id) const { return texts_.at(id).began.has_value(); }
  // Of the text, those that are to be in the cache.
  std::span<const model::Token> tokens(Id id) const { return texts_.at(id).tokens; }
  std::size_t under_way() const { return active_.size(); }
  std::size_t waiting() const { return waiting_.size(); }
  double cache_used() const {
    return 1 - static_cast<double>(pages_.free()) / static_cast<double>(limits_.pages);
  }

 private:
  struct Text {
    Order order;                       // its prompt has become `tokens`
    std::vector<model::Token> tokens;  // that are to be in the cache, the newest of the text
    std::size_t read = 0;              // of these
    std::vector<KvPages::Page> pages;
    KvPages::Beginning beginning = 0;  // of the full pages that are remembered
    std::size_t remembered = 0;        // how many these are
    std::optional<Time> began;         // to be under way first
    std::size_t share = 0;             // of the next pass, with the guesses
    std::size_t guesses = 0;           // at the end of `tokens`, until it is told what comes
  };
  struct Client {
    std::uint64_t had = 0;  // tokens
    std::size_t texts = 0;
  };

  Text& at(Id id) { return texts_.at(id); }
  bool goes_before(Id one, Id other) const;
  bool fits(const Text& text) const;
  void admit(Time now);
  bool make_place(const Text& text);
  void put_back(Id id);
  bool get_pages(Id id, std::size_t positions);
  void release(Text& text);
  void read_on(Text& text, std::size_t count);
  void leave(Id id);
  std::optional<Duration> wait_of(std::size_t ahead) const;

  Limits limits_;
  KvPages pages_;
  std::map<Id, Text> texts_;
  std::map<std::string, Client> clients_;
  std::vector<Id> active_;  // in the order in which they began
  std::deque<Id> waiting_;  // in the order in which they came
  std::size_t waiting_tokens_ = 0;
  Id last_ = 0;
  std::optional<Duration> usual_;  // from a text's beginning to its end
};

}  // namespace gpunode::inference
