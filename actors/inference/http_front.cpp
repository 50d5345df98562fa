#include "actors/inference/http_front.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>

#include "actors/inference/openai.hpp"
#include "runtime/base/utf8.hpp"

namespace gpunode::inference {
namespace {

using openai::AnswerHead;
using openai::CompletionRequest;

constexpr const char* kJson = "application/json";
// So often who waits for a model looks whether its client is still there.
constexpr auto kLookForClient = std::chrono::milliseconds(100);
constexpr std::size_t kLongestRequestBytes = 1 << 20;  // the mesh takes no longer one

// `field`: of the request, that it is about.
http::Answer refusal(const Error& error, const std::string& field = "") {
  http::Answer answer{.status = openai::status_of(error),
                      .content_type = kJson,
                      .body = openai::error_body(error, field)};
  if (answer.status == 429 || answer.status == 503) answer.headers = {{"Retry-After", "1"}};
  return answer;
}

std::uint64_t random_number() {
  thread_local std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

std::string random_id(bool is_chat) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string id = is_chat ? "chatcmpl-" : "cmpl-";
  for (int word = 0; word < 2; ++word)
    for (std::uint64_t left = random_number(), i = 0; i < 12; ++i, left >>= 4)
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
std::shared_ptr<Choices> begin(const HttpFrontOptions& options, const CompletionRequest& request) {
  auto choices = std::make_shared<Choices>();
  const auto timeout = std::chrono::duration_cast<std::chrono::milliseconds>(options.timeout);
  for (std::size_t choice = 0; choice < request.texts.size(); ++choice) {
    GenerateText order{.model = request.model, .request = request.texts[choice]};
    order.request.timeout_ms = static_cast<std::uint32_t>(timeout.count());
    order.on_piece = [choices, choice](const TextPiece& piece) {
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

// Nobody reads it.
http::Answer to_nobody(Choices& choices) {
  choices.give_up();
  return {.status = 499};
}

http::Answer answer_whole(const HttpFrontOptions& options, const http::Request& asked,
                          const AnswerHead& head, const CompletionRequest& request) {
  const auto choices = begin(options, request);
  std::vector<GenerateAnswer> texts(request.texts.size());
  for (std::size_t left = texts.size(); left > 0;) {
    auto event = choices->next();
    if (!asked.is_open()) return to_nobody(*choices);
    if (!event || !event->end) continue;
    if (!*event->end) return refusal(event->end->error());
    texts[event->choice] = *std::move(*event->end);
    --left;
  }
  return {.content_type = kJson, .body = openai::completion(head, request, texts)};
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

// Writes events until all choices have ended, one failed, or the client is gone.
void write_stream(http::Writer& to, Choices& choices, const AnswerHead& head,
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
    auto event = choices.next();
    if (!event) {
      if (!to.is_open()) return;
      continue;
    }
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
  if (request.include_usage && !to.write(openai::usage_event(head, request, texts))) return;
  (void)to.write(openai::kDoneEvent);
}

http::Answer answer_in_pieces(const HttpFrontOptions& options, const http::Request& asked,
                              AnswerHead head, CompletionRequest request) {
  auto choices = begin(options, request);
  // What fails at once is refused with its status.
  std::optional<Choices::Event> first;
  while (!first) {
    first = choices->next();
    if (!first && !asked.is_open()) return to_nobody(*choices);
  }
  if (first->end && !*first->end) return refusal(first->end->error());
  auto rest = std::make_shared<Choices::Event>(*std::move(first));
  return {.content_type = "text/event-stream",
          .headers = {{"Cache-Control", "no-cache"}},
          .stream = [choices, head = std::move(head), request = std::move(request),
                     rest](http::Writer& to) {
            choices->put_back(std::move(*rest));
            write_stream(to, *choices, head, request);
            choices->give_up();
          }};
}

using ReadRequest = Result<CompletionRequest>(std::string_view body, std::uint64_t random,
                                              std::string* wrong_field);

template <ReadRequest* read>
http::Answer complete(const HttpFrontOptions& options, const http::Request& asked) {
  std::string wrong_field;
  auto request = read(asked.body, random_number(), &wrong_field);
  if (!request) return refusal(request.error(), wrong_field);
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(options.clock->wall().time_since_epoch());
  AnswerHead head{.id = random_id(request->is_chat),
                  .created = seconds.count(),
                  .model = request->model,
                  .is_chat = request->is_chat};
  if (request->stream)
    return answer_in_pieces(options, asked, std::move(head), *std::move(request));
  return answer_whole(options, asked, head, *request);
}

http::Answer list_models(const HttpFrontOptions& options) {
  return {.content_type = kJson, .body = openai::models(options.models(), 0)};
}

http::Answer tell_model(const HttpFrontOptions& options, const std::string& name) {
  const auto names = options.models();
  if (std::ranges::find(names, name) != names.end())
    return {.content_type = kJson, .body = openai::model(name, 0)};
  return refusal({ErrorCode::not_found, "no node serves a model named '" + name + "'"});
}

// Whether a page of some website had a browser ask: its script names the site in Origin, and one that has
// its own name lead to loopback names that in Host.
bool is_of_a_page(const http::Request& asked) {
  if (!asked.header("origin").empty()) return true;
  std::string_view host = asked.header("host");
  if (host.empty()) return false;  // HTTP/1.0
  if (host.starts_with('[')) return !host.starts_with("[::1]");
  host = host.substr(0, host.find(':'));
  return host != "localhost" && !host.starts_with("127.");
}

struct Route {
  const char* path;
  const char* method;
  http::Answer (*answer)(const HttpFrontOptions& options, const http::Request& asked);
};
constexpr Route kRoutes[] = {
    {"/v1/completions", "POST", complete<openai::read_completion>},
    {"/v1/chat/completions", "POST", complete<openai::read_chat>},
    {"/v1/models", "GET",
     [](const HttpFrontOptions& options, const http::Request&) { return list_models(options); }},
    {"/health", "GET",
     [](const HttpFrontOptions&, const http::Request&) { return http::Answer{.body = "ok\n"}; }},
};
constexpr std::string_view kModel = "/v1/models/";

http::Answer answer(const HttpFrontOptions& options, const http::Request& asked) {
  if (is_of_a_page(asked))
    return refusal({ErrorCode::permission_denied,
                    "pages of other sites are not answered: ask from a program on this machine"});
  const bool reads = asked.method == "GET" || asked.method == "HEAD";
  if (reads && asked.path.starts_with(kModel))
    return tell_model(options, asked.path.substr(kModel.size()));
  for (const Route& route : kRoutes) {
    if (asked.path != route.path) continue;
    if ((reads ? "GET" : asked.method) != route.method) {
      http::Answer wrong = refusal(
          {ErrorCode::invalid_argument, asked.path + " is asked by " + route.method + " only"});
      wrong.status = 405;
      wrong.headers = {{"Allow", route.method}};
      return wrong;
    }
    if (!reads && !asked.header("content-type").starts_with(kJson)) {
      http::Answer wrong =
          refusal({ErrorCode::invalid_argument, "the Content-Type must be application/json"});
      wrong.status = 415;
      return wrong;
    }
    return route.answer(options, asked);
  }
  std::string known;
  for (const Route& route : kRoutes) known += std::string(known.empty() ? "" : ", ") + route.path;
  return refusal({ErrorCode::not_found, "nothing is at " + asked.path + "; there are " + known});
}

}  // namespace

Result<std::unique_ptr<http::Server>> open_http_front(HttpFrontOptions options) {
  http::ServerOptions server{.listen = options.listen,
                             .threads = options.threads,
                             .connections = 1024,
                             .deadline = std::chrono::seconds(10),
                             .answer_deadline = options.timeout + std::chrono::seconds(10),
                             .request_bytes = kLongestRequestBytes};
  return http::Server::open(server, [options = std::move(options)](const http::Request& asked) {
    return answer(options, asked);
  });
}

}  // namespace gpunode::inference
