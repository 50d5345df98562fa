// Continues the texts that a model is asked for, all of them together: in each pass those that the
// batch (text_batch.hpp) chooses are read through the model's decoder, and each whose last token was
// read gets its next one. A text is a function of its request and the weights: neither other texts
// nor a beginning that is known already change it. No mailbox; owned by a served model, one thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/inference/chat_form.hpp"
#include "actors/inference/generate_codec.hpp"
#include "actors/inference/model_figures.hpp"
#include "actors/inference/stop_sequences.hpp"
#include "actors/inference/text_batch.hpp"
#include "actors/inference/text_draft.hpp"
#include "actors/inference/text_forms.hpp"
#include "kernels/model/decoder.hpp"
#include "kernels/model/token_sampler.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/tokenizer/text_stream.hpp"

namespace gpunode::inference {

// What has been generated, as it comes; whether more is wanted.
using GivePiece = std::function<bool(const TextPiece& piece)>;
// Once.
using TextDone = std::function<void(Result<GenerateAnswer>)>;

struct TextOrder {
  GenerateRequest request;
  Time deadline{};
  std::string client;   // among whom the model is divided
  GivePiece give = {};  // empty: all at the end
  TextDone done;
  bool is_probe = false;  // how long it takes says nothing of others
};

class TextEngine {
 public:
  static constexpr std::size_t kMostRows = 256;  // of a pass
  static constexpr std::uint64_t kCacheBytes = std::uint64_t{1} << 30;
  struct Options {
    const model::Model* model = nullptr;
    std::shared_ptr<const tokenizer::Tokenizer> tokenizer;
    std::vector<model::Token> ends;  // behind which a text is over
    std::shared_ptr<const ChatForm> chat = std::make_shared<ChatForm>();
    const Clock* clock = nullptr;
    std::shared_ptr<ModelFigures> figures = {};  // null: nobody is told
    std::size_t texts = 16;                      // under way at once
    std::uint64_t cache_bytes = kCacheBytes;
    bool independent_rows = false;  // as model::DecoderOptions have it
    // A smaller one that guesses how texts go on (text_draft.hpp), which have the same bits with it and
    // without; null: none. Both outlive this too.
    const model::Model* draft = nullptr;
    model::Program* draft_program = nullptr;
    std::size_t draft_texts = TextDraft::kMostTexts;  // under way, beyond which it is not asked
    // Of a model in parts: its decoder, and who is told until when the answer to a pass is waited for.
    // Empty: the program's, which waits for nobody.
    std::function<Result<std::unique_ptr<model::Decoder>>(const model::DecoderOptions&)> decoder =
        {};
    std::function<void(Time)> pass_until = {};
  };
  // `program` has its weights, outlives this, and is not loaded again meanwhile. Fails with: what
  // making a decoder fails with; of a draft: what TextDraft::open() fails with, invalid_argument (it has
  // another vocabulary), unsupported (the model's texts do not step back).
  static Result<std::unique_ptr<TextEngine>> open(model::Program& program, Options options);

  // Each order is answered once: cancelled (no more was wanted), timeout (not begun before its
  // deadline), invalid_argument (a prompt that is no text, or not of the model's tokens), what TextForms
  // fails with, unsupported (a chat with a model that has
  // no template of them), resource_exhausted (it would not be begun
  // in time, or too many wait), unavailable (a part of the model cannot be reached), what reading fails with. Past its deadline a text is cut there, and
  // says so; one that has as many reports as an answer takes (some 6 MB) ends there, as by its length. Those that are left when this goes are not answered.
  void begin(TextOrder order);
  bool is_idle() const { return texts_.empty(); }
  std::size_t under_way() const { return batch_.under_way(); }
  std::size_t waiting() const { return batch_.waiting(); }
  double cache_used() const { return batch_.cache_used(); }  // 0 to 1, by texts under way
  const TextDraft* draft() const { return draft_.get(); }    // null: there is none
  // Reads once. Fails with: device_lost and the like; the texts that were to be read are answered by
  // that too.
  Result<void> pass();

 private:
  struct Text {
    Text(TextOrder ordered, const Options& options);
    TextOrder order;
    model::TokenSampler sampler;
    tokenizer::TextStream stream;
    StopSequences stop;
    GenerateAnswer answer;
    Time began{};
    std::optional<Time> last_token{};
    std::optional<grammar::Matcher> form;  // nothing: any
    std::string echo;                      // comes with the first token
    std::uint32_t characters = 0;          // of the text, with those that are held back
    std::size_t given_reports = 0;
    std::size_t report_bytes = 0;  // about
    bool told_begun = false;
  };
  struct Prompt {
    std::vector<model::Token> tokens;
    std::string text;  // where it is to be echoed
  };
  TextEngine(Options options, std::unique_ptr<model::Decoder> decoder);
  Result<void> open_draft();
  Result<Prompt> prompt_of(const GenerateRequest& request) const;
  Result<Prompt> prompt_of_tokens(const GenerateRequest& request) const;
  void report(Text& text, model::Token token, std::span<const float> scores) const;
  void end_overdue(Time now);
  Result<void> guess(std::vector<TextBatch::Part>& parts);
  Result<void> make_ready();
  Result<void> read(std::span<const TextBatch::Part> parts);
  Result<void> on_unread(std::span<const TextBatch::Part> parts, const Error& why);
  void tell_begun(std::span<const TextBatch::Part> parts, Time now);
  void tell_token(Text& text, Time now);
  void judge(TextBatch::Id id, std::size_t guessed, std::size_t right);
  void go_on(TextBatch::Id id, std::span<float> scores, Time now);
  Result<model::Token> choose(Text& text, std::span<float> scores);
  Result<bool> take(Text& text, model::Token token) const;
  void finish(TextBatch::Id id);
  void answer(TextBatch::Id id, Result<GenerateAnswer> result);
  std::size_t vocabulary() const { return options_.model->vocabulary(); }

  Options options_;
  std::unique_ptr<model::Decoder> decoder_;
  std::unique_ptr<TextDraft> draft_;
  std::uint64_t life_ = 0;  // of what the decoder's pages hold
  TextBatch batch_;
  std::map<TextBatch::Id, Text> texts_;
  std::vector<float> scores_, own_scores_;
  TextForms forms_;
};

}  // namespace gpunode::inference
