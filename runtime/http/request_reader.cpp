#include "runtime/http/request_reader.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace gpunode::http {
namespace {

constexpr std::size_t kMostHeaders = 100, kLongestMethod = 16, kLongestChunkLine = 256;
constexpr std::string_view kHeadEnd = "\r\n\r\n";

bool is_token(std::string_view text) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [&](char letter) {
    return ('a' <= letter && letter <= 'z') || ('A' <= letter && letter <= 'Z') ||
           ('0' <= letter && letter <= '9') || kMarks.find(letter) != std::string_view::npos;
  });
}

bool has_control(std::string_view text) {
  return std::ranges::any_of(text, [](unsigned char letter) {
    return (letter < 0x20 && letter != '\t') || letter == 0x7f;
  });
}

std::string in_small_letters(std::string_view text) {
  std::string small(text);
  for (char& letter : small)
    if ('A' <= letter && letter <= 'Z') letter = static_cast<char>(letter + ('a' - 'A'));
  return small;
}

std::string_view trimmed(std::string_view text) {
  const auto is_blank = [](char letter) { return letter == ' ' || letter == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// Without its escapes; nothing where one is none.
std::optional<std::string> unescaped(std::string_view text, bool of_form) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (of_form && text[at] == '+') {
      plain += ' ';
      continue;
    }
    if (text[at] != '%') {
      plain += text[at];
      continue;
    }
    unsigned value = 0;
    if (text.size() - at < 3) return {};
    const auto digits = text.substr(at + 1, 2);
    const auto read = std::from_chars(digits.data(), digits.data() + 2, value, 16);
    if (read.ptr != digits.data() + 2 || read.ec != std::errc()) return {};
    plain += static_cast<char>(value);
    at += 2;
  }
  return plain;
}

template <class Number>
std::optional<Number> number_of(std::string_view text, int base) {
  Number value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size()) return {};
  return value;
}

}  // namespace

RequestReader::Stage RequestReader::fail(int status, std::string why) {
  status_ = status;
  why_ = std::move(why);
  bytes_ = {};
  request_.body = {};
  return stage_ = Stage::failed;
}

RequestReader::Stage RequestReader::add(std::string_view bytes) {
  if (stage_ == Stage::failed) return stage_;
  bytes_ += bytes;
  return stage_ == Stage::whole ? stage_ : advance();
}

Request RequestReader::take() {
  Request taken = std::exchange(request_, Request{.method = {}, .path = {}});
  stage_ = Stage::head;
  searched_ = 0;
  advance();
  return taken;
}

RequestReader::Stage RequestReader::advance() {
  if (stage_ == Stage::head) {
    if (searched_ == 0) {  // empty lines before a request are none of it
      std::size_t empty = 0;
      while (std::string_view(bytes_).substr(empty).starts_with("\r\n")) empty += 2;
      bytes_.erase(0, empty);
    }
    const std::size_t end = bytes_.find(kHeadEnd, searched_);
    if (std::min(end, bytes_.size()) > limits_.head_bytes)
      return fail(431, "the request's head has more than " + std::to_string(limits_.head_bytes) +
                           " bytes: send fewer or shorter header lines");
    if (end == std::string::npos) {
      searched_ = bytes_.size() - std::min(bytes_.size(), kHeadEnd.size() - 1);
      return stage_;
    }
    std::string head = bytes_.substr(0, end + 2);
    bytes_.erase(0, end + kHeadEnd.size());
    stage_ = Stage::body;
    read_head(head);
    if (stage_ == Stage::body) read_framing();
  }
  if (stage_ == Stage::body) read_body();
  return stage_;
}

void RequestReader::read_head(std::string_view head) {
  std::size_t count = 0;
  for (bool first = true; !head.empty() && stage_ == Stage::body; first = false) {
    const std::string_view line = head.substr(0, head.find("\r\n"));
    head.remove_prefix(line.size() + 2);
    if (has_control(line))
      fail(400, "a line of the request's head holds a control character");
    else if (first)
      read_request_line(line);
    else if (++count > kMostHeaders)
      fail(431, "the request has more than a hundred header lines");
    else
      read_header(line);
  }
}

void RequestReader::read_request_line(std::string_view line) {
  const std::size_t first = line.find(' '), last = line.rfind(' ');
  const std::string_view version = line.substr(std::min(last, line.size() - 1) + 1);
  if (first >= last || !version.starts_with("HTTP/")) {
    fail(400, "the first line is no request of HTTP");
    return;
  }
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    fail(505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    return;
  }
  is_1_0_ = version == "HTTP/1.0";
  request_.method = line.substr(0, first);
  if (!is_token(request_.method) || request_.method.size() > kLongestMethod) {
    fail(400, "the request's method is none");
    return;
  }
  read_target(line.substr(first + 1, last - first - 1));
}

void RequestReader::read_target(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"})  // as proxies are asked
    if (target.starts_with(scheme)) {
      target.remove_prefix(scheme.size());
      target = target.substr(std::min(target.find('/'), target.size()));
      if (target.empty()) target = "/";
    }
  const std::string_view path = target.substr(0, target.find('?'));
  auto plain = unescaped(path, false);
  const bool whole = request_.method == "OPTIONS" && target == "*";
  if (!plain || has_control(*plain) || (!path.starts_with('/') && !whole) ||
      target.find(' ') != std::string_view::npos) {
    fail(400, "the request's target is no path");
    return;
  }
  request_.path = *std::move(plain);
  std::string_view rest = target.substr(std::min(path.size() + 1, target.size()));
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
    const std::size_t equals = std::min(one.find('='), one.size());
    auto name = unescaped(one.substr(0, equals), true);
    auto value = unescaped(one.substr(std::min(equals + 1, one.size())), true);
    if (!name || !value) {
      fail(400, "an escape behind the '?' is none");
      return;
    }
    request_.query.emplace(*std::move(name), *std::move(value));
  }
}

void RequestReader::read_header(std::string_view line) {
  const std::size_t colon = std::min(line.find(':'), line.size());
  const std::string_view name = line.substr(0, colon);
  if (colon == line.size() || !is_token(name)) {
    fail(400, "a header line is none: it wants NAME: VALUE");
    return;
  }
  const std::string small = in_small_letters(name);
  const bool once = small == "host" || small == "content-length" || small == "transfer-encoding" ||
                    small == "authorization" || small == "inference-header-content-length";
  if (once && request_.headers.contains(small)) {
    fail(400, "the header '" + small + "' is given twice");
    return;
  }
  request_.headers[small] = trimmed(line.substr(colon + 1));
}

void RequestReader::read_framing() {
  if (!is_1_0_ && !request_.headers.contains("host")) {
    fail(400, "the request has no header 'host', which HTTP/1.1 wants");
    return;
  }
  const std::string connection = in_small_letters(request_.header("connection"));
  keeps_alive_ = !is_1_0_ && connection.find("close") == std::string::npos;
  chunk_ = Chunk::size;
  trailer_bytes_ = body_bytes_ = 0;
  const std::string coding = in_small_letters(request_.header("transfer-encoding"));
  is_chunked_ = request_.headers.contains("transfer-encoding");
  if (is_chunked_ && (is_1_0_ || request_.headers.contains("content-length"))) {
    fail(400, "the request says in two ways how long its body is");
    return;
  }
  if (is_chunked_ && coding != "chunked") {
    fail(501, "the body's Transfer-Encoding can be chunked alone");
    return;
  }
  // What is packed may become any amount when it is unpacked.
  const std::string packed = in_small_letters(request_.header("content-encoding"));
  if (!packed.empty() && packed != "identity") {
    fail(415, "send the request without Content-Encoding");
    return;
  }
  const std::string expected = in_small_letters(request_.header("expect"));
  if (!expected.empty() && expected != "100-continue") {
    fail(417, "only 100-continue can be expected");
    return;
  }
  if (request_.headers.contains("content-length")) read_length(request_.header("content-length"));
  wants_continue_ = !expected.empty() && !is_1_0_ && bytes_.empty();
}

void RequestReader::read_length(std::string_view length) {
  const bool digits = !length.empty() && std::ranges::all_of(length, [](char letter) {
    return '0' <= letter && letter <= '9';
  });
  if (!digits) {
    fail(400, "the Content-Length is no number");
    return;
  }
  const auto bytes = number_of<std::size_t>(length, 10);
  if (!bytes || *bytes > limits_.body_bytes) {
    fail(413, "the request's body has more than " + std::to_string(limits_.body_bytes) +
                  " bytes: shorten it");
    return;
  }
  body_bytes_ = *bytes;
}

void RequestReader::read_body() {
  if (is_chunked_) {
    at_ = 0;
    while (stage_ == Stage::body && read_chunk()) {
    }
    bytes_.erase(0, std::min(at_, bytes_.size()));
    return;
  }
  if (bytes_.size() < body_bytes_) return;
  std::string rest = bytes_.substr(body_bytes_);
  bytes_.resize(body_bytes_);
  request_.body = std::exchange(bytes_, std::move(rest));
  stage_ = Stage::whole;
}

// Without its end; nothing where it is not all here.
std::optional<std::string_view> RequestReader::next_line() {
  const std::string_view rest = std::string_view(bytes_).substr(at_);
  const std::size_t end = rest.substr(0, kLongestChunkLine).find("\r\n");
  if (end == std::string_view::npos) {
    if (rest.size() >= kLongestChunkLine) fail(400, "a line between two chunks is too long");
    return {};
  }
  at_ += end + 2;
  return rest.substr(0, end);
}

// Whether there may be more to read of what is here.
bool RequestReader::read_chunk() {
  if (chunk_ == Chunk::data) {
    const std::size_t count = std::min(chunk_left_, bytes_.size() - at_);
    request_.body.append(bytes_, at_, count);
    at_ += count;
    chunk_left_ -= count;
    if (chunk_left_ > 0) return false;
    chunk_ = Chunk::end;
  }
  if (chunk_ == Chunk::end) {
    if (bytes_.size() - at_ < 2) return false;
    if (!std::string_view(bytes_).substr(at_).starts_with("\r\n")) {
      fail(400, "a chunk is longer than it says");
      return false;
    }
    at_ += 2;
    chunk_ = Chunk::size;
  }
  const auto line = next_line();
  if (!line) return false;
  return chunk_ == Chunk::size ? read_chunk_size(*line) : read_trailer(*line);
}

bool RequestReader::read_chunk_size(std::string_view line) {
  const auto size = number_of<std::uint32_t>(trimmed(line.substr(0, line.find(';'))), 16);
  if (!size || has_control(line)) {
    fail(400, "a chunk does not say how long it is");
    return false;
  }
  if (*size > limits_.body_bytes - request_.body.size()) {
    fail(413, "the request's body has more than " + std::to_string(limits_.body_bytes) +
                  " bytes: shorten it");
    return false;
  }
  chunk_left_ = *size;
  chunk_ = *size > 0 ? Chunk::data : Chunk::trailer;
  return true;
}

bool RequestReader::read_trailer(std::string_view line) {
  if (line.empty()) {
    stage_ = Stage::whole;
    return false;
  }
  trailer_bytes_ += line.size() + 2;
  if (trailer_bytes_ > limits_.head_bytes)
    fail(431, "the lines behind the last chunk are too many");
  return true;
}

}  // namespace gpunode::http
