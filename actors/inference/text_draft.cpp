#include "actors/inference/text_draft.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/model/model_code.hpp"
#include "runtime/base/check.hpp"

namespace gpunode::inference {
namespace {

constexpr std::size_t kRows = 64;  // of a pass, as many as a prompt gets beside other texts

}  // namespace

std::size_t GuessCount::next() {
  const double few = share_ > 0 ? std::log(kWorth) / std::log(std::min(share_, 0.99)) : 0;
  const auto count = std::min(kMost, static_cast<std::size_t>(few));
  if (count > 0) return count;
  return ++without_ % kTryAgain == 0 ? 1 : 0;
}

void GuessCount::on_judged(std::size_t guessed, std::size_t right) {
  constexpr double kNew = 0.1;
  without_ = 0;
  for (std::size_t at = 0; at < std::min(guessed, right + 1); ++at)
    share_ += kNew * ((at < right ? 1.0 : 0.0) - share_);
}

Result<std::unique_ptr<TextDraft>> TextDraft::open(model::Program& program,
                                                   const Options& options) {
  auto decoder = model::make_decoder(
      *options.model, program,
      {.texts = options.texts, .rows = kRows, .cache_bytes = options.cache_bytes});
  if (!decoder) return decoder.error();
  if (!(*decoder)->steps_back())
    return Error{ErrorCode::unsupported,
                 options.model->name() + " cannot be a draft, as its texts do not step back"};
  return std::unique_ptr<TextDraft>(new TextDraft(options, *std::move(decoder)));
}

TextDraft::TextDraft(const Options& options, std::unique_ptr<model::Decoder> decoder)
    : options_(options),
      decoder_(std::move(decoder)),
      pages_(decoder_->pages(), decoder_->page()) {}

void TextDraft::release(Text& text) {
  pages_.give_back(text.pages);
  text.pages.clear();
  text.read.clear();
}

void TextDraft::forget(TextBatch::Id id) {
  const auto text = texts_.find(id);
  if (text == texts_.end()) return;
  release(text->second);
  texts_.erase(text);
}

void TextDraft::on_judged(TextBatch::Id id, std::size_t guessed, std::size_t right) {
  counts_.guessed += guessed;
  counts_.right += right;
  if (const auto text = texts_.find(id); text != texts_.end())
    text->second.count.on_judged(guessed, right);
}

// Room for so many positions, of texts that are not asked for too; false: there is none.
bool TextDraft::get_pages(Text& text, std::size_t positions, std::span<const Order> orders) {
  const std::size_t needed = (positions + pages_.page() - 1) / pages_.page();
  if (needed > text.pages.size() && needed - text.pages.size() > pages_.free())
    for (auto& [id, other] : texts_)
      if (std::ranges::find(orders, id, &Order::id) == orders.end()) release(other);
  while (text.pages.size() < needed) {
    const auto page = pages_.take();
    if (!page) return false;
    text.pages.push_back(*page);
  }
  return true;
}

// What is read of which texts, so far as it can be; each steps back to where it went on otherwise.
std::vector<TextDraft::Work> TextDraft::plan(std::span<const Order> orders) {
  std::vector<Work> works;
  for (std::size_t place = 0; place < orders.size(); ++place) {
    const Order& order = orders[place];
    Text& text = texts_[order.id];
    const std::size_t wanted = std::min(order.most, text.count.next());
    if (wanted == 0 || order.tokens.size() + wanted - 1 > decoder_->context()) continue;
    const auto differs = std::ranges::mismatch(text.read, order.tokens).in1;
    const auto same = static_cast<std::size_t>(differs - text.read.begin());
    text.read.resize(std::min(same, order.tokens.size() - 1));
    if (!get_pages(text, order.tokens.size() + wanted - 1, orders)) {
      release(text);
      continue;
    }
    const auto unread = order.tokens.subspan(text.read.size());
    works.push_back({.order = &order,
                     .text = &text,
                     .place = place,
                     .wanted = wanted,
                     .unread = unread.first(std::min(unread.size(), kRows / orders.size())),
                     .sampler = {}});
  }
  return works;
}

// Of each what is unread.
Result<void> TextDraft::read(std::span<const Work> works) {
  std::vector<model::TextPart> parts;
  for (const Work& work : works)
    parts.push_back({.tokens = work.unread,
                     .position = work.text->read.size(),
                     .pages = work.text->pages,
                     .scored = 1});
  scores_.resize(works.size() * options_.model->vocabulary());
  auto done = model::guarded("the draft", [&] { return decoder_->read(parts, scores_); });
  if (!done) return done.error().within("the draft");
  for (const Work& work : works)
    work.text->read.insert(work.text->read.end(), work.unread.begin(), work.unread.end());
  return {};
}

Result<std::vector<std::vector<model::Token>>> TextDraft::guess(std::span<const Order> orders) {
  GPUNODE_CHECK(orders.size() <= options_.texts, "as many texts are guessed as a pass takes");
  std::vector<std::vector<model::Token>> guesses(orders.size());
  for (auto& guessed : guesses) guessed.reserve(GuessCount::kMost);  // they are read where they lie
  std::vector<Work> works = plan(orders);
  const std::size_t vocabulary = options_.model->vocabulary();
  while (!works.empty()) {
    if (auto done = read(works); !done) return done.error();
    std::span<const float> scores = scores_;
    std::vector<Work> go_on;
    for (Work& work : works) {
      const auto own = scores.first(vocabulary);
      scores = scores.subspan(vocabulary);
      auto& guessed = guesses[work.place];
      if (work.text->read.size() < work.order->tokens.size()) continue;  // of a long prompt
      if (!work.sampler) work.sampler = *work.order->sampler;
      guessed.push_back(work.sampler->choose(own));
      if (guessed.size() == work.wanted) continue;
      work.unread = std::span(guessed).last(1);
      go_on.push_back(std::move(work));
    }
    works = std::move(go_on);
  }
  return guesses;
}

}  // namespace gpunode::inference
