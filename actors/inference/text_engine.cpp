#include "actors/inference/text_engine.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "actors/inference/token_rating.hpp"
#include "kernels/model/model_code.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/utf8.hpp"

namespace gpunode::inference {
namespace {

constexpr std::size_t kMostReportBytes = 6u << 20;  // an answer takes no more

// Beginnings of characters; what is no text counts as if each of its bytes were one.
std::uint32_t characters_in(std::string_view text) {
  std::uint32_t count = 0;
  while (!text.empty()) {
    text.remove_prefix(std::max<std::size_t>(utf8_length(text), 1));
    ++count;
  }
  return count;
}

// What a text of nothing goes on from: where another one ended, or a new line.
model::Token beginning_of(const tokenizer::Tokenizer& tokenizer,
                          std::span<const model::Token> ends) {
  for (const model::Token end : ends)
    if (!tokenizer.text_of(end).empty()) return end;
  return tokenizer.token_of("\n").value_or(0);
}

model::SamplingOptions sampling_of(const GenerateRequest& request) {
  return {.temperature = request.temperature,
          .top_k = static_cast<int>(request.top_k),
          .top_p = request.top_p,
          .min_p = request.min_p,
          .presence_penalty = request.presence_penalty,
          .frequency_penalty = request.frequency_penalty,
          .repetition_penalty = request.repetition_penalty,
          .seed = request.seed};
}

TextBatch::Limits limits_of(const model::Decoder& decoder) {
  return {.texts = decoder.most_texts(),
          .rows = decoder.most_rows(),
          .context = decoder.context(),
          .page = decoder.page(),
          .pages = decoder.pages()};
}

template <class List, class DeadlineOf>
Time last_of(const List& list, DeadlineOf deadline_of) {
  Time last{};
  for (const auto& one : list) last = std::max(last, deadline_of(one));
  return last;
}

// What is wrong with a form is its client's to mend, also where that is its size.
Error of_form(Error error) {
  if (error.code == ErrorCode::resource_exhausted) error.code = ErrorCode::invalid_argument;
  return error;
}

}  // namespace

TextEngine::Text::Text(TextOrder ordered, const Options& options)
    : order(std::move(ordered)),
      sampler(sampling_of(order.request)),
      stream(options.tokenizer),
      stop(order.request.stop),
      began(options.clock->now()) {
  answer.finish = "length";
}

Result<std::unique_ptr<TextEngine>> TextEngine::open(model::Program& program, Options options) {
  const model::DecoderOptions wanted{.texts = options.texts,
                                     .rows = kMostRows,
                                     .cache_bytes = options.cache_bytes,
                                     .independent_rows = options.independent_rows};
  auto decoder = options.decoder ? options.decoder(wanted)
                                 : model::make_decoder(*options.model, program, wanted);
  if (!decoder) return decoder.error();
  std::unique_ptr<TextEngine> engine(new TextEngine(std::move(options), *std::move(decoder)));
  if (auto done = engine->open_draft(); !done) return done.error();
  return engine;
}

Result<void> TextEngine::open_draft() {
  if (!options_.draft) return {};
  if (options_.draft->vocabulary() != vocabulary())
    return Error{ErrorCode::invalid_argument,
                 "the draft has " + std::to_string(options_.draft->vocabulary()) +
                     " tokens and the model " + std::to_string(vocabulary()) +
                     ": a draft is a smaller model of the same tokenizer"};
  if (!decoder_->steps_back())
    return Error{ErrorCode::unsupported,
                 options_.model->name() + " takes no draft, as its texts do not step back"};
  auto draft = TextDraft::open(*options_.draft_program,
                               {.model = options_.draft, .texts = options_.draft_texts});
  if (!draft) return draft.error();
  draft_ = *std::move(draft);
  return {};
}

TextEngine::TextEngine(Options options, std::unique_ptr<model::Decoder> decoder)
    : options_(std::move(options)),
      decoder_(std::move(decoder)),
      batch_(limits_of(*decoder_)),
      forms_(options_.tokenizer, options_.model->vocabulary(), options_.ends) {}

void TextEngine::begin(TextOrder order) {
  const Time now = options_.clock->now();
  if (now >= order.deadline)
    return order.done(Error{ErrorCode::timeout, "the deadline passed while the request waited"});
  const auto prompt = prompt_of(order.request);
  if (!prompt) return order.done(prompt.error());
  const std::vector<model::Token>& tokens = prompt->tokens;
  if (order.request.whole_prompt && tokens.size() > decoder_->context())
    return order.done(Error{ErrorCode::invalid_argument,
                            "the prompt has " + std::to_string(tokens.size()) +
                                " tokens, and the model reads " +
                                std::to_string(decoder_->context()) + " at once: shorten it"});
  if (order.request.max_tokens == 0)
    order.request.max_tokens = static_cast<std::uint32_t>(
        std::max(tokens.size() + 1, decoder_->context()) - tokens.size());
  std::optional<grammar::Matcher> form;
  if (!order.request.form.empty()) {
    auto begun = forms_.begin(order.request.form);
    if (!begun) return order.done(of_form(begun.error()));
    form = *std::move(begun);
  }
  const auto id = batch_.add(now, {.prompt = tokens,
                                   .deadline = order.deadline,
                                   .priority = order.request.priority,
                                   .client = order.client,
                                   .is_usual = !order.is_probe});
  if (!id) return order.done(id.error());
  Text& text = texts_.try_emplace(*id, std::move(order), options_).first->second;
  text.answer.prompt_tokens = static_cast<std::uint32_t>(tokens.size());
  text.form = std::move(form);
  text.echo = prompt->text;
  text.characters = characters_in(text.echo);
  text.sampler.read(tokens);
  if (auto behind = text.stream.go_on_from(tokens); !behind) answer(*id, behind.error());
}

Result<TextEngine::Prompt> TextEngine::prompt_of(const GenerateRequest& request) const {
  if (!request.prompt_tokens.empty()) return prompt_of_tokens(request);
  // A template has put all marks into the text.
  const bool is_chat = !request.chat.empty();
  std::string text = request.prompt;
  if (is_chat) {
    auto of_chat = options_.chat->text_of(request.chat, *options_.clock);
    if (!of_chat) return of_chat.error();
    text = *std::move(of_chat);
  }
  tokenizer::EncodeOptions how{.surrounded = !is_chat, .special_tokens = true};
  if (request.whole_prompt) how.most = decoder_->context();
  auto tokens = options_.tokenizer->encode(text, how);
  if (!tokens) return tokens.error().within(is_chat ? "messages" : "prompt");
  if (tokens->empty()) tokens->push_back(beginning_of(*options_.tokenizer, options_.ends));
  return Prompt{*std::move(tokens), request.echo ? std::move(text) : std::string()};
}

Result<TextEngine::Prompt> TextEngine::prompt_of_tokens(const GenerateRequest& request) const {
  const std::vector<model::Token>& tokens = request.prompt_tokens;
  for (std::size_t place = 0; place < tokens.size(); ++place)
    if (tokens[place] < 0 || static_cast<std::size_t>(tokens[place]) >= vocabulary())
      return Error{ErrorCode::invalid_argument, "prompt: token " + std::to_string(tokens[place]) +
                                                    " at place " + std::to_string(place) +
                                                    " is none of the model's, which are 0 to " +
                                                    std::to_string(vocabulary() - 1)};
  Prompt prompt{tokens, {}};
  if (!request.echo) return prompt;
  auto text = options_.tokenizer->decode(tokens, true);
  if (!text) return text.error().within("prompt");
  prompt.text = *std::move(text);
  return prompt;
}

void TextEngine::answer(TextBatch::Id id, Result<GenerateAnswer> result) {
  const Time now = options_.clock->now();
  Text& text = texts_.at(id);
  if (result) result->seconds = std::chrono::duration<double>(now - text.began).count();
  const TextDone done = std::move(text.order.done);
  texts_.erase(id);
  batch_.end(now, id);
  if (draft_) draft_->forget(id);
  done(std::move(result));
}

// With what the stream and the sequences that stop it have held back.
void TextEngine::finish(TextBatch::Id id) {
  Text& text = texts_.at(id);
  const auto rest = text.stream.end();
  if (!rest) return answer(id, rest.error());
  text.answer.text += text.echo + text.stop.add(*rest) + text.stop.end();
  if (text.stop.is_over()) text.answer.finish = "stop";
  answer(id, std::move(text.answer));
}

void TextEngine::end_overdue(Time now) {
  std::vector<TextBatch::Id> overdue;
  for (const auto& [id, text] : texts_)
    if (now >= text.order.deadline) overdue.push_back(id);
  for (const TextBatch::Id id : overdue) {
    if (batch_.has_begun(id)) {
      texts_.at(id).answer.finish = "deadline";
      finish(id);
    } else {
      answer(id, Error{ErrorCode::timeout, "the deadline passed while the request waited"});
    }
  }
}

Result<void> TextEngine::read(std::span<const TextBatch::Part> parts) {
  std::vector<model::TextPart> texts;
  std::size_t wanted = 0;
  for (const TextBatch::Part& part : parts) {
    texts.push_back(part.read);
    wanted += part.read.scored;
  }
  scores_.resize(wanted * vocabulary());
  // For as long as one of them can make use of it.
  if (options_.pass_until)
    options_.pass_until(last_of(
        parts, [&](const TextBatch::Part& part) { return texts_.at(part.id).order.deadline; }));
  return model::guarded("the model", [&] { return decoder_->read(texts, scores_); });
}

// What the pages hold may be gone; then all texts begin anew, and go on as they would have. Where no pass can
// be made nobody waits for it: another replica may answer.
Result<void> TextEngine::make_ready() {
  if (texts_.empty()) return {};
  if (options_.pass_until)
    options_.pass_until(last_of(texts_, [](const auto& one) { return one.second.order.deadline; }));
  const auto life = decoder_->ready();
  if (!life) {
    while (!texts_.empty()) answer(texts_.begin()->first, life.error());
    return life.error();
  }
  if (std::exchange(life_, *life) != *life) batch_.forget();
  return {};
}

Result<void> TextEngine::on_unread(std::span<const TextBatch::Part> parts, const Error& why) {
  if (why.code == ErrorCode::unavailable) {
    end_overdue(options_.clock->now());
    const std::uint64_t before = life_;
    if (auto ready = make_ready(); !ready || life_ != before) return ready;
  }
  for (const TextBatch::Part& part : parts)
    if (texts_.contains(part.id)) answer(part.id, why);
  return why;
}

Result<void> TextEngine::pass() {
  const Time now = options_.clock->now();
  end_overdue(now);
  if (auto ready = make_ready(); !ready) return ready;
  std::vector<TextBatch::Part> parts = batch_.next(now);
  if (parts.empty()) return {};
  tell_begun(parts, now);
  auto done = guess(parts);
  if (done) done = read(parts);
  if (!done) return on_unread(parts, done.error());
  batch_.on_read();
  const Time read_at = options_.figures ? options_.clock->now() : now;
  std::span<float> scores = scores_;
  for (const TextBatch::Part& part : parts) {  // what they read is not looked at any more
    const std::size_t count = part.read.scored * vocabulary();
    if (count > 0) go_on(part.id, scores.first(count), read_at);
    scores = scores.subspan(count);
  }
  return {};
}

// Of those that are read for the first time: how long they waited, and what was known of them.
void TextEngine::tell_begun(std::span<const TextBatch::Part> parts, Time now) {
  if (!options_.figures) return;
  bool is_somebodys = false;
  for (const TextBatch::Part& part : parts) {
    Text& text = texts_.at(part.id);
    if (text.order.is_probe) continue;
    is_somebodys = true;
    if (std::exchange(text.told_begun, true)) continue;
    options_.figures->begun(now - text.began);
    options_.figures->looked_up(text.answer.prompt_tokens, part.read.position);
  }
  if (is_somebodys) options_.figures->pass();
}

void TextEngine::tell_token(Text& text, Time now) {
  if (!options_.figures || text.order.is_probe) return;
  if (text.last_token)
    options_.figures->next_token(now - *text.last_token);
  else
    options_.figures->first_token(now - text.began);
  text.last_token = now;
}

// Behind the tokens that texts go on with, where a few are under way and none of them is at its prompt:
// with more the model has enough to do with them.
Result<void> TextEngine::guess(std::vector<TextBatch::Part>& parts) {
  if (!draft_ || batch_.under_way() > draft_->most_texts()) return {};
  // As many scores as a pass gives.
  const std::size_t most = decoder_->most_texts() / parts.size() - 1;
  std::vector<TextDraft::Order> orders;
  for (const TextBatch::Part& part : parts) {
    if (part.read.tokens.size() > 1 || part.read.scored == 0) return {};
    const Text& text = texts_.at(part.id);
    const auto tokens = batch_.tokens(part.id);
    const std::size_t room = std::min<std::size_t>(
        {most, decoder_->context() - tokens.size(),
         text.order.request.max_tokens - text.answer.tokens - std::size_t{1}});
    // A form leaves few tokens to choose among, and the draft does not know which.
    if (room > 0 && !text.form) orders.push_back({part.id, tokens, &text.sampler, room});
  }
  const auto guesses = draft_->guess(orders);
  if (!guesses) {
    if (guesses.error().code == ErrorCode::device_lost) return guesses.error();
    log::warning("inference",
                 "the draft fails, and texts go on without it: " + guesses.error().message());
    draft_.reset();
    return {};
  }
  for (std::size_t at = 0; at < orders.size(); ++at)
    if (const auto& tokens = (*guesses)[at]; !tokens.empty()) batch_.guess(orders[at].id, tokens);
  parts = batch_.parts();
  return {};
}

void TextEngine::judge(TextBatch::Id id, std::size_t guessed, std::size_t right) {
  draft_->on_judged(id, guessed, right);
  if (options_.figures) options_.figures->drafted(guessed, right);
}

// The text's next token by the first of these scores, which may change, and as long as it is what was
// guessed, the one behind it by the next.
void TextEngine::go_on(TextBatch::Id id, std::span<float> scores, Time now) {
  Text& text = texts_.at(id);
  const std::size_t guessed = scores.size() / vocabulary() - 1;
  for (std::size_t right = 0;; ++right, scores = scores.subspan(vocabulary())) {
    const auto token = choose(text, scores.first(vocabulary()));
    if (!token) return answer(id, token.error());
    ++text.answer.tokens;
    tell_token(text, now);
    const auto goes_on = take(text, *token);
    const bool was_guessed = batch_.on_token(id, *token);
    if (guessed > 0 && (!was_guessed || !goes_on || !*goes_on))
      judge(id, guessed, right + (was_guessed ? 1 : 0));
    if (!goes_on) return answer(id, goes_on.error());
    if (!*goes_on) return finish(id);
    if (!was_guessed) return;
  }
}

Result<model::Token> TextEngine::choose(Text& text, std::span<float> scores) {
  // What is told is of the model's own.
  const bool is_told = text.order.request.likely.has_value();
  if (text.form) {
    if (is_told) own_scores_.assign(scores.begin(), scores.end());
    if (auto limited = forms_.limit(*text.form, scores); !limited) return of_form(limited.error());
  }
  const model::Token token = text.sampler.choose(scores);
  if (text.form && !std::isfinite(scores[static_cast<std::size_t>(token)]))
    return Error{ErrorCode::internal,
                 "the model's scores are no finite numbers where the form that is asked for lets a "
                 "text go on: its training has gone wrong"};
  if (is_told) report(text, token, text.form ? std::span<const float>(own_scores_) : scores);
  return token;
}

// What is told of the token that was chosen by these scores.
void TextEngine::report(Text& text, model::Token token, std::span<const float> scores) const {
  TokenReport made = rate_token(scores, token, *text.order.request.likely, *options_.tokenizer);
  made.place = text.characters;
  text.report_bytes += 16 + made.token.bytes.size();
  for (const RatedToken& one : made.likely) text.report_bytes += 8 + one.bytes.size();
  text.answer.reports.push_back(std::move(made));
}

// Whether the text goes on behind this token.
Result<bool> TextEngine::take(Text& text, model::Token token) const {
  if (std::ranges::find(options_.ends, token) != options_.ends.end()) {
    text.answer.finish = "stop";
    return false;
  }
  if (text.form)
    if (auto added = forms_.add(*text.form, token); !added) return of_form(added.error());
  const auto more = text.stream.add(token);
  if (!more) return more.error();
  text.characters += characters_in(*more);
  // What was held back before it may have come with it.
  if (text.order.request.likely) {
    TokenReport& newest = text.answer.reports.back();
    if (!newest.token.bytes.empty() && more->ends_with(newest.token.bytes))
      newest.place = text.characters - characters_in(newest.token.bytes);
  }
  const std::string sure = std::exchange(text.echo, {}) + text.stop.add(*more);
  text.answer.text += sure;
  const auto reports =
      std::span<const TokenReport>(text.answer.reports).subspan(text.given_reports);
  text.given_reports += reports.size();
  if (text.order.give && !text.order.give({sure, reports}))
    return Error{ErrorCode::cancelled, "who asked for the text is gone"};
  if (text.form && text.form->must_end()) {
    text.answer.finish = "stop";
    return false;
  }
  return !text.stop.is_over() && text.answer.tokens < text.order.request.max_tokens &&
         text.report_bytes < kMostReportBytes;
}

}  // namespace gpunode::inference
