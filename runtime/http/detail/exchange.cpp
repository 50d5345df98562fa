#include "runtime/http/detail/exchange.hpp"

#include <algorithm>

namespace gpunode::http::detail {
namespace {

constexpr std::size_t kSliceBytes = 64 << 10;  // of a whole answer, each within a piece's time
constexpr std::size_t kHeadBytes = 512;        // as most heads have

struct Reason {
  int status;
  const char* text;
};
constexpr Reason kReasons[] = {{200, "OK"},
                               {204, "No Content"},
                               {400, "Bad Request"},
                               {401, "Unauthorized"},
                               {403, "Forbidden"},
                               {404, "Not Found"},
                               {405, "Method Not Allowed"},
                               {408, "Request Timeout"},
                               {413, "Content Too Large"},
                               {415, "Unsupported Media Type"},
                               {417, "Expectation Failed"},
                               {429, "Too Many Requests"},
                               {431, "Request Header Fields Too Large"},
                               {500, "Internal Server Error"},
                               {501, "Not Implemented"},
                               {503, "Service Unavailable"},
                               {504, "Gateway Timeout"},
                               {505, "HTTP Version Not Supported"}};

const char* reason_of(int status) {
  const auto found = std::ranges::find(kReasons, status, &Reason::status);
  return found == std::end(kReasons) ? "Other" : found->text;
}

// A value that would end its line goes on in it.
void add_in_one_line(std::string_view text, std::string& to) {
  std::ranges::replace_copy_if(
      text, std::back_inserter(to),
      [](unsigned char letter) { return letter < 0x20 || letter == 0x7f; }, ' ');
}

// Made once a second by each thread.
const std::string& date_of(std::chrono::system_clock::time_point time) {
  thread_local std::chrono::sys_seconds second{};
  thread_local std::string text;
  if (const auto now = std::chrono::floor<std::chrono::seconds>(time);
      text.empty() || now != second) {
    second = now;
    text = utc_text(time, "%a, %d %b %Y %H:%M:%S GMT");
  }
  return text;
}

std::string head_of(const Answer& answer, const AnswerForm& form) {
  std::string head =
      "HTTP/1.1 " + std::to_string(answer.status) + ' ' + reason_of(answer.status) + "\r\n";
  head.reserve(answer.body.size() <= kSliceBytes ? kHeadBytes + answer.body.size() : kHeadBytes);
  const auto add = [&](std::string_view name, std::string_view value) {
    head.append(name).append(": ");
    add_in_one_line(value, head);
    head += "\r\n";
  };
  add("Date", date_of(std::chrono::system_clock::now()));
  for (const auto& [name, value] : answer.headers) add(name, value);
  if (answer.status != 204) {
    add("Content-Type", answer.content_type);
    add("X-Content-Type-Options", "nosniff");
    if (!answer.stream)
      add("Content-Length", std::to_string(answer.body.size()));
    else if (form.in_chunks)
      add("Transfer-Encoding", "chunked");
  }
  if (!form.goes_on) add("Connection", "close");
  return head + "\r\n";
}

class PieceWriter final : public Writer {
 public:
  PieceWriter(Connection& to, const AnswerForm& form, const AnswerTime& time)
      : to_(to), form_(form), time_(time) {}
  bool write(std::string_view piece) override {
    if (piece.empty()) return is_open();  // it would end the answer
    if (!form_.in_chunks) return say(std::string(piece));
    char size[20];
    const int digits = std::snprintf(size, sizeof size, "%zx\r\n", piece.size());
    return say(std::string(size, static_cast<std::size_t>(digits)) + std::string(piece) + "\r\n");
  }
  bool is_open() const override { return open_ && !to_.is_gone(); }
  bool end() { return !form_.in_chunks || say("0\r\n\r\n"); }

 private:
  bool say(const std::string& bytes) {
    return open_ = open_ && to_.send(bytes, std::min(time_.until, std::chrono::steady_clock::now() +
                                                                      time_.piece));
  }

  Connection& to_;
  const AnswerForm& form_;
  const AnswerTime& time_;
  bool open_ = true;
};

}  // namespace

AnswerForm form_of(const RequestReader& reader) {
  return {.without_body = reader.request().method == "HEAD", .in_chunks = !reader.is_1_0()};
}

bool write_answer(Connection& to, const Answer& answer, const AnswerForm& form,
                  const AnswerTime& time) {
  const auto until = [&] {
    return std::min(time.until, std::chrono::steady_clock::now() + time.piece);
  };
  std::string head = head_of(answer, form);
  if (answer.stream && !form.without_body) {
    if (!to.send(head, until())) return false;
    PieceWriter writer(to, form, time);
    answer.stream(writer);
    return writer.end();
  }
  std::string_view body = answer.body;
  if (form.without_body || answer.status == 204) body = {};
  if (body.size() <= kSliceBytes) return to.send(head.append(body), until());  // in one go
  if (!to.send(head, until())) return false;
  for (; !body.empty(); body.remove_prefix(std::min(kSliceBytes, body.size())))
    if (!to.send(body.substr(0, kSliceBytes), until())) return false;
  return true;
}

}  // namespace gpunode::http::detail
