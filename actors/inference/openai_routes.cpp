#include "actors/inference/http_routes.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>

#include "actors/inference/openai.hpp"
#include "actors/inference/openai_embeddings.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/base/utf8.hpp"

namespace gpunode::inference {

std::uint64_t random_seed() {
  // The device itself takes microseconds a number.
  thread_local Rng numbers = [] {
    std::random_device device;
    return Rng(std::uint64_t{device()} << 32 | device());
  }();
  return numbers.next();
}

http::Answer refusal(const Error& error, const std::string& field,
                     std::chrono::seconds retry_after) {
  http::Answer answer{.status = openai::status_of(error),
                      .content_type = kJsonType,
                      .body = openai::error_body(error, field)};
  if (answer.status == 401) answer.headers = {{"WWW-Authenticate", "Bearer"}};
  if (answer.status == 429 || answer.status == 503)
    answer.headers = {{"Retry-After", std::to_string(retry_after.count())}};
  return answer;
}

namespace {

using openai::AnswerHead;
using openai::CompletionRequest;

// Tokens that a text takes which names no bound, until it is known.
constexpr std::uint64_t kUnboundTokens = 256;

std::string random_id(bool is_chat) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string id = is_chat ? "chatcmpl-" : "cmpl-";
  for (int word = 0; word < 2; ++word)
    for (std::uint64_t left = random_seed(), i = 0; i < 12; ++i, left >>= 4)
      id += kDigits[left & 15];
  return id;
}

// What comes of the choices of one request, from any threads, to the one that writes the answer.
class Choices {
 public:
  struct Event {
    std::size_t choice = 0;
    std::string piece;
    std::vector<TokenReport> reports;
    std::optional<Result<GenerateAnswer>> end;
  };

  bool add(Event event) {
    {
      std::lock_guard lock(mutex_);
      if (unwanted_) return false;
      events_.push_back(std::move(event));
    }
    changed_.notify_one();
    return true;
  }
  // Of a piece that nobody reads: whether more are wanted.
  bool is_wanted() {
    std::lock_guard lock(mutex_);
    return !unwanted_;
  }
  // One that was taken out too early.
  void put_back(Event event) {
    std::lock_guard lock(mutex_);
    events_.push_front(std::move(event));
  }
  // Nothing, if nothing comes for a while.
  std::optional<Event> next() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kLookForClient, [&] { return !events_.empty(); })) return {};
    Event event = std::move(events_.front());
    events_.pop_front();
    return event;
  }
  // The client is gone.
  void give_up() {
    std::lock_guard lock(mutex_);
    unwanted_ = true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool unwanted_ = false;
  std::deque<Event> events_;
};

// Has all choices generated.
std::shared_ptr<Choices> begin(const HttpFrontOptions& options, const CompletionRequest& request,
                               const std::string& client) {
  auto choices = std::make_shared<Choices>();
  const auto timeout = std::chrono::duration_cast<std::chrono::milliseconds>(options.timeout);
  for (std::size_t choice = 0; choice < request.texts.size(); ++choice) {
    GenerateText order{.model = request.model, .request = request.texts[choice]};
    order.request.timeout_ms = static_cast<std::uint32_t>(timeout.count());
    order.request.client = client;
    order.is_shown = request.stream;
    // Also of one that is told whole, so that it ends with its client.
    order.on_piece = [choices, choice, stream = request.stream](const TextPiece& piece) {
      if (!stream) return choices->is_wanted();
      return choices->add(
          {choice, std::string(piece.text), {piece.reports.begin(), piece.reports.end()}, {}});
    };
    order.done = [choices, choice](Result<GenerateAnswer> answer) {
      choices->add({choice, {}, {}, std::move(answer)});
    };
    options.generate(std::move(order));
  }
  return choices;
}

// What is under way for one request.
struct Work {
  std::shared_ptr<Choices> choices;
  std::shared_ptr<HttpGate::Ticket> ticket;
  std::function<bool()> is_open;  // of its client

  // What ends it before its time: what its client is told, if that is still there.
  std::optional<http::Answer> over() const {
    if (!is_open()) return http::Answer{.status = 499};  // nobody reads it
    if (!ticket->is_good()) return refusal(key_is_over());
    return {};
  }
  ~Work() { choices->give_up(); }
};

std::uint64_t tokens_of(const std::vector<GenerateAnswer>& texts, std::size_t choices_a_prompt) {
  std::uint64_t tokens = 0;
  for (std::size_t choice = 0; choice < texts.size(); ++choice)
    tokens +=
        texts[choice].tokens + (choice % choices_a_prompt == 0 ? texts[choice].prompt_tokens : 0);
  return tokens;
}

http::Answer answer_whole(Work& work, const AnswerHead& head, const CompletionRequest& request) {
  std::vector<GenerateAnswer> texts(request.texts.size());
  for (std::size_t left = texts.size(); left > 0;) {
    auto event = work.choices->next();
    if (auto over = work.over()) return *std::move(over);
    if (!event || !event->end) continue;
    if (!*event->end) {
      settle(*work.ticket, event->end->error());
      return refusal(event->end->error());
    }
    texts[event->choice] = *std::move(*event->end);
    --left;
  }
  work.ticket->set_used(tokens_of(texts, request.choices_a_prompt));
  return {.content_type = kJsonType, .body = openai::completion(head, request, texts)};
}

// As much of the text as has whole characters; the rest is held back for what comes next.
std::string whole_characters(std::string& held, std::string_view piece) {
  held += piece;
  std::size_t end = held.size();
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, held.size()); ++back) {
    const auto byte = static_cast<unsigned char>(held[held.size() - back]);
    if (byte < 0x80) break;
    if (byte < 0xc0) continue;  // inside a character
    const std::size_t length = byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    if (length > back) end = held.size() - back;
    break;
  }
  std::string whole = held.substr(0, end);
  held.erase(0, end);
  return whole;
}

// Writes events until all choices have ended, one failed, the key is over, or the client is gone.
void write_stream(http::Writer& to, Work& work, const AnswerHead& head,
                  const CompletionRequest& request) {
  std::vector<GenerateAnswer> texts(request.texts.size());
  std::vector<std::string> held(texts.size());
  const auto write_text = [&](std::size_t choice, const TextPiece& piece) {
    return (piece.text.empty() && piece.reports.empty()) ||
           to.write(openai::text_event(head, choice, piece));
  };
  for (std::size_t choice = 0; choice < texts.size(); ++choice)
    if (request.is_chat && !to.write(openai::start_event(head, choice))) return;
  for (std::size_t left = texts.size(); left > 0;) {
    auto event = work.choices->next();
    if (!work.is_open()) return;
    if (!work.ticket->is_good()) {
      (void)to.write(openai::error_event(key_is_over()));
      return;
    }
    if (!event) continue;
    if (!event->end) {
      const std::string whole = whole_characters(held[event->choice], event->piece);
      if (!write_text(event->choice, {whole, event->reports})) return;
      continue;
    }
    if (!*event->end) {  // after a 200 there is no other way to say it
      (void)to.write(openai::error_event(event->end->error()));
      return;
    }
    texts[event->choice] = *std::move(*event->end);
    if (!write_text(event->choice, {held[event->choice]}) ||
        !to.write(openai::finish_event(head, event->choice, texts[event->choice])))
      return;
    --left;
  }
  work.ticket->set_used(tokens_of(texts, request.choices_a_prompt));
  if (request.include_usage && !to.write(openai::usage_event(head, request, texts))) return;
  (void)to.write(openai::kDoneEvent);
}

http::Answer answer_in_pieces(std::shared_ptr<Work> work, AnswerHead head,
                              CompletionRequest request) {
  // What fails at once is refused with its status.
  std::optional<Choices::Event> first;
  while (!first) {
    first = work->choices->next();
    if (auto over = work->over()) return *std::move(over);
  }
  if (first->end && !*first->end) {
    settle(*work->ticket, first->end->error());
    return refusal(first->end->error());
  }
  work->choices->put_back(*std::move(first));
  return {.content_type = "text/event-stream",
          .headers = {{"Cache-Control", "no-cache"}},
          .stream = [work = std::move(work), head = std::move(head), request = std::move(request)](
                        http::Writer& to) { write_stream(to, *work, head, request); }};
}

using ReadRequest = Result<CompletionRequest>(std::string_view body, std::uint64_t random,
                                              std::string* wrong_field);

// What is set aside until it is known, and is the price of what ends before: of a client that hangs up too.
std::uint64_t most_tokens(const CompletionRequest& request) {
  std::uint64_t tokens = 0;
  for (std::size_t choice = 0; choice < request.texts.size(); ++choice) {
    const GenerateRequest& text = request.texts[choice];
    tokens += text.max_tokens > 0 ? text.max_tokens : kUnboundTokens;
    if (choice % request.choices_a_prompt == 0) tokens += likely_prompt_tokens(text);
  }
  return tokens;
}

std::optional<http::Answer> refuse_long(const Asked& asked) {
  if (asked.request.body.size() <= kLongestTextBytes) return {};
  http::Answer answer = refusal(
      {ErrorCode::invalid_argument, "the request's body has more than " +
                                        std::to_string(kLongestTextBytes) + " bytes: shorten it"});
  answer.status = 413;
  return answer;
}

template <ReadRequest* read>
http::Answer complete(const Asked& asked) {
  const HttpFrontOptions& options = asked.front.options;
  std::string wrong_field;
  if (auto long_one = refuse_long(asked)) return *std::move(long_one);
  auto request = read(asked.request.body, random_seed(), &wrong_field);
  if (!request) return refusal(request.error(), wrong_field);
  if (const auto may = asked.caller.may_use(request->model); !may)
    return refusal(may.error(), "model");
  if (const auto may = asked.caller.may_go_first(request->texts.front().priority); !may)
    return refusal(may.error(), "priority");
  std::chrono::seconds retry_after{};
  auto ticket = asked.front.gate.begin(asked.caller, most_tokens(*request), retry_after);
  if (!ticket) return refusal(ticket.error(), "", retry_after);
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(options.clock->wall().time_since_epoch());
  AnswerHead head{.id = random_id(request->is_chat),
                  .created = seconds.count(),
                  .model = request->model,
                  .is_chat = request->is_chat};
  auto work = std::make_shared<Work>(begin(options, *request, asked.client()), *std::move(ticket),
                                     asked.request.is_open);
  if (request->stream)
    return answer_in_pieces(std::move(work), std::move(head), *std::move(request));
  return answer_whole(*work, head, *request);
}

}  // namespace

http::Answer complete_text(const Asked& asked) {
  return complete<openai::read_completion>(asked);
}

http::Answer complete_chat(const Asked& asked) {
  return complete<openai::read_chat>(asked);
}

http::Answer embed_texts(const Asked& asked) {
  std::string wrong_field;
  if (auto long_one = refuse_long(asked)) return *std::move(long_one);
  const auto request = openai::read_embeddings(asked.request.body, &wrong_field);
  if (!request) return refusal(request.error(), wrong_field);
  if (const auto may = asked.caller.may_use(request->model); !may)
    return refusal(may.error(), "model");
  std::chrono::seconds retry_after{};
  const auto ticket = asked.front.gate.begin(asked.caller, kUnboundTokens, retry_after);
  if (!ticket) return refusal(ticket.error(), "", retry_after);
  const auto told = ask_tensors(asked, request->model, request->texts, **ticket);
  if (!told && told.error().code == ErrorCode::cancelled) return {.status = 499};
  if (!told && told.error().code == ErrorCode::unauthenticated) return refusal(told.error());
  (*ticket)->set_used(0);
  if (!told)
    return refusal(told.error(), told.error().code == ErrorCode::not_found ? "model" : "input");
  auto written = openai::embeddings(*request, *told);
  if (!written) return refusal(written.error());
  (*ticket)->set_used(written->tokens);
  return {.content_type = kJsonType, .body = std::move(written->body)};
}

http::Answer list_models(const Asked& asked) {
  auto names = asked.front.options.models();
  std::erase_if(names, [&](const std::string& name) { return !asked.caller.sees(name); });
  return {.content_type = kJsonType, .body = openai::models(names, 0)};
}

http::Answer tell_model(const Asked& asked) {
  const std::string name = asked.request.path.substr(std::string_view("/v1/models/").size());
  const auto names = asked.front.options.models();
  if (std::ranges::find(names, name) != names.end() && asked.caller.sees(name))
    return {.content_type = kJsonType, .body = openai::model(name, 0)};
  return refusal({ErrorCode::not_found, "no node serves a model named '" + name + "'"});
}

}  // namespace gpunode::inference
