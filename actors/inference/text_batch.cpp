#include "actors/inference/text_batch.hpp"

#include <algorithm>

#include "runtime/base/check.hpp"

namespace gpunode::inference {
namespace {

std::string seconds_text(Duration time) {
  return std::to_string(std::chrono::ceil<std::chrono::seconds>(time).count()) + " s";
}

}  // namespace

TextBatch::TextBatch(const Limits& limits) : limits_(limits), pages_(limits.pages, limits.page) {
  GPUNODE_CHECK(limits.pages * limits.page >= limits.context,
                "the cache does not hold a text as long as the model reads");
}

// How long one waits behind so many others, as it has been; nothing: none has ended yet.
std::optional<Duration> TextBatch::wait_of(std::size_t ahead) const {
  if (!usual_) return std::nullopt;
  return *usual_ * static_cast<Duration::rep>(ahead + 1) /
         static_cast<Duration::rep>(limits_.texts);
}

Result<TextBatch::Id> TextBatch::add(Time now, Order order) {
  GPUNODE_CHECK(!order.prompt.empty(), "a text begins with a token");
  if (waiting_.size() >= limits_.most_waiting ||
      waiting_tokens_ + order.prompt.size() > limits_.most_waiting_tokens)
    return Error{ErrorCode::resource_exhausted,
                 std::to_string(waiting_.size()) +
                     " texts wait for this model already, as many as may: try again later, or "
                     "serve it on more nodes"};
  if (active_.size() >= limits_.texts) {
    std::size_t ahead = 0;
    for (const Id id : waiting_)
      if (at(id).order.priority >= order.priority) ++ahead;
    const auto wait = wait_of(ahead);
    if (wait && now + *wait >= order.deadline)
      return Error{ErrorCode::resource_exhausted,
                   "it would wait about " + seconds_text(*wait) +
                       ", longer than its deadline leaves: try again then, give it more time, or "
                       "serve the model on more nodes"};
  }
  const Id id = ++last_;
  Text& text = texts_[id];
  const std::size_t most = std::min(order.prompt.size(), limits_.context);
  text.tokens.assign(order.prompt.end() - static_cast<std::ptrdiff_t>(most), order.prompt.end());
  order.prompt = {};
  text.order = std::move(order);
  // Who comes new has had as little as the one who has had least, and no less.
  const auto known = clients_.find(text.order.client);
  if (known == clients_.end()) {
    std::optional<std::uint64_t> least;
    for (const auto& [name, client] : clients_)
      least = std::min(least.value_or(client.had), client.had);
    clients_[text.order.client] = {.had = least.value_or(0), .texts = 1};
  } else {
    ++known->second.texts;
  }
  waiting_.push_back(id);
  waiting_tokens_ += text.tokens.size();
  return id;
}

void TextBatch::leave(Id id) {
  if (std::erase(waiting_, id) > 0) waiting_tokens_ -= at(id).tokens.size();
  std::erase(active_, id);
}

void TextBatch::release(Text& text) {
  pages_.give_back(text.pages);
  text.pages.clear();
  text.read = text.remembered = text.share = 0;
  text.beginning = 0;
}

void TextBatch::end(Time now, Id id) {
  Text& text = at(id);
  if (text.began && text.order.is_usual) {
    const Duration took = now - *text.began;
    usual_ = usual_ ? (*usual_ * 7 + took) / 8 : took;
  }
  release(text);
  leave(id);
  const auto client = clients_.find(text.order.client);
  if (--client->second.texts == 0) clients_.erase(client);
  texts_.erase(id);
}

bool TextBatch::goes_before(Id one, Id other) const {
  const Text &a = texts_.at(one), &b = texts_.at(other);
  if (a.order.priority != b.order.priority) return a.order.priority > b.order.priority;
  const std::uint64_t had = clients_.at(a.order.client).had,
                      other_had = clients_.at(b.order.client).had;
  return had != other_had ? had < other_had : one < other;
}

// With room for the token that comes behind it; a text alone always has.
bool TextBatch::fits(const Text& text) const {
  return active_.empty() || text.tokens.size() / limits_.page + 1 <= pages_.free();
}

// Where all places are taken, one of whoever has most, of no higher priority and two more than who waits for it.
bool TextBatch::make_place(const Text& text) {
  std::map<std::string_view, std::size_t> places;
  for (const Id id : active_) ++places[at(id).order.client];
  const auto places_of = [&](Id id) { return places[at(id).order.client]; };
  std::optional<Id> last;
  for (const Id id : active_)
    if (at(id).order.priority <= text.order.priority &&
        (!last || places_of(id) > places_of(*last) ||
         (places_of(id) == places_of(*last) && goes_before(*last, id))))
      last = id;
  if (!last || places_of(*last) < places[text.order.client] + 2) return false;
  put_back(*last);
  return true;
}

void TextBatch::admit(Time now) {
  while (!waiting_.empty()) {
    const Id id = *std::ranges::min_element(
        waiting_, [&](Id one, Id other) { return goes_before(one, other); });
    Text& text = at(id);
    if (active_.size() >= limits_.texts && !make_place(text)) return;
    if (!fits(text)) return;
    leave(id);
    active_.push_back(id);
    if (!text.began) text.began = now;
    KvPages::Known known = pages_.find(text.tokens);
    text.remembered = known.pages.size();
    text.read = text.remembered * limits_.page;
    text.pages = std::move(known.pages);
    text.beginning = known.beginning;
  }
}

void TextBatch::put_back(Id id) {
  release(at(id));
  leave(id);
  waiting_.push_front(id);
  waiting_tokens_ += at(id).tokens.size();
}

// Room for so many positions of the text. Others step back for it; false: this one is to.
bool TextBatch::get_pages(Id id, std::size_t positions) {
  Text& text = at(id);
  while (text.pages.size() * limits_.page < positions) {
    if (const auto page = pages_.take()) {
      text.pages.push_back(*page);
      continue;
    }
    const Id last = *std::ranges::max_element(
        active_, [&](Id one, Id other) { return goes_before(one, other); });
    if (last == id) return false;
    put_back(last);
  }
  return true;
}

std::vector<TextBatch::Part> TextBatch::next(Time now) {
  admit(now);
  for (const Id id : active_) at(id).share = 0;
  std::size_t rows = limits_.rows;
  const auto give = [&](Id id, std::size_t count) {
    Text& text = at(id);
    if (count == 0 || text.share > 0) return;
    if (!get_pages(id, text.read + count)) return put_back(id);
    text.share = count;
    rows -= count;
  };
  const std::vector<Id> in_order = active_;  // which changes where some step back
  const auto is_active = [&](Id id) { return std::ranges::find(active_, id) != active_.end(); };
  const auto left = [&](Id id) { return at(id).tokens.size() - at(id).read; };
  bool others_wait = false;
  for (const Id id : in_order)
    if (is_active(id) && left(id) == 1 && rows > 0) {
      give(id, 1);
      others_wait = true;
    }
  std::size_t room = others_wait ? std::min(rows, limits_.prompt_rows) : rows;
  for (const Id id : in_order)
    if (is_active(id) && left(id) > 1 && room > 0) {
      const std::size_t before = rows;
      give(id, std::min(room, left(id)));
      room -= before - rows;
    }
  return parts();
}

std::vector<TextBatch::Part> TextBatch::parts() const {
  std::vector<Part> parts;
  for (const Id id : active_) {
    const Text& text = texts_.at(id);
    if (text.share == 0) continue;
    parts.push_back(
        {id,
         {.tokens = std::span(text.tokens).subspan(text.read, text.share),
          .position = text.read,
          .pages = text.pages,
          .scored = text.read + text.share == text.tokens.size() ? 1 + text.guesses : 0}});
  }
  return parts;
}

std::size_t TextBatch::guess(Id id, std::span<const model::Token> tokens) {
  Text& text = at(id);
  GPUNODE_CHECK(text.share == 1 && text.read + 1 == text.tokens.size(),
                "guesses come behind a text's last token");
  std::size_t rows = 0;
  for (const Id other : active_) rows += at(other).share;
  std::size_t count =
      std::min({tokens.size(), limits_.rows - rows, limits_.context - text.tokens.size()});
  while (text.pages.size() * limits_.page < text.tokens.size() + count) {
    const auto page = pages_.take();
    if (!page) count = text.pages.size() * limits_.page - text.tokens.size();
    if (page) text.pages.push_back(*page);
  }
  text.tokens.insert(text.tokens.end(), tokens.begin(),
                     tokens.begin() + static_cast<std::ptrdiff_t>(count));
  text.guesses = count;
  text.share += count;
  return count;
}

// So many more of its tokens are what the text is, and were read.
void TextBatch::read_on(Text& text, std::size_t count) {
  text.read += count;
  clients_.at(text.order.client).had += count;
  for (; (text.remembered + 1) * limits_.page <= text.read; ++text.remembered)
    text.beginning = pages_.remember(
        text.beginning,
        std::span(text.tokens).subspan(text.remembered * limits_.page, limits_.page),
        text.pages[text.remembered]);
}

void TextBatch::on_read() {
  for (const Id id : active_) {
    Text& text = at(id);
    read_on(text, std::exchange(text.share, 0) - text.guesses);
  }
}

void TextBatch::forget() {
  const std::vector<Id> in_order = active_;
  for (auto id = in_order.rbegin(); id != in_order.rend(); ++id) {
    Text& text = at(*id);
    text.tokens.resize(text.tokens.size() - std::exchange(text.guesses, 0));
    put_back(*id);
  }
  pages_ = KvPages(limits_.pages, limits_.page);
}

bool TextBatch::on_token(Id id, model::Token token) {
  Text& text = at(id);
  if (text.guesses > 0) {
    const std::size_t place = text.tokens.size() - text.guesses;
    if (text.tokens[place] == token) {
      --text.guesses;
      read_on(text, 1);
      return true;
    }
    text.tokens.resize(place);
    text.guesses = 0;
  }
  text.tokens.push_back(token);
  if (text.tokens.size() <= limits_.context) return false;
  const std::size_t keep = std::max<std::size_t>(1, limits_.context / 2);
  text.tokens.erase(text.tokens.begin(), text.tokens.end() - static_cast<std::ptrdiff_t>(keep));
  release(text);
  return false;
}

}  // namespace gpunode::inference
