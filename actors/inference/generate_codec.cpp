#include "actors/inference/generate_codec.hpp"

#include <cmath>
#include <limits>
#include <sstream>

#include "runtime/base/aligned_copy.hpp"
#include "runtime/base/wire_vector.hpp"
#include "schemas/generate_generated.h"

namespace gpunode::inference {

namespace wire = gpunode::wire::generate;

namespace {

constexpr std::size_t kLimitBytes = 8u << 20;
constexpr std::size_t kMostStops = 16;
constexpr std::uint32_t kMostPriority = 100, kMostLikely = 20;

auto octets(flatbuffers::FlatBufferBuilder& builder, const std::string& text) {
  return builder.CreateVector(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
}

std::string text_of(const flatbuffers::Vector<std::uint8_t>* bytes) {
  return bytes ? std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()) : "";
}

using Reports = std::vector<TokenReport>;

flatbuffers::Offset<wire::Reports> written(flatbuffers::FlatBufferBuilder& builder,
                                           const Reports& reports) {
  if (reports.empty()) return 0;
  std::vector<std::uint8_t> likely;
  std::vector<std::uint32_t> places, lengths;
  std::string bytes;
  std::vector<float> log_probabilities;
  const auto add = [&](const RatedToken& one) {
    lengths.push_back(static_cast<std::uint32_t>(one.bytes.size()));
    bytes += one.bytes;
    log_probabilities.push_back(
        one.log_probability.value_or(std::numeric_limits<float>::quiet_NaN()));
  };
  for (const TokenReport& report : reports) {
    likely.push_back(static_cast<std::uint8_t>(report.likely.size()));
    places.push_back(report.place);
    add(report.token);
    for (const RatedToken& one : report.likely) add(one);
  }
  auto counts = builder.CreateVector(likely);
  auto where = builder.CreateVector(places);
  auto sizes = builder.CreateVector(lengths);
  auto texts = octets(builder, bytes);
  auto values = builder.CreateVector(log_probabilities);
  return wire::CreateReports(builder, counts, where, sizes, texts, values);
}

// Nothing: they make no sense.
std::optional<Reports> read_reports(const wire::Reports* in) {
  if (!in) return Reports();
  if (!in->likely() || !in->places() || !in->lengths() || !in->log_probabilities())
    return std::nullopt;
  std::size_t entries = in->likely()->size(), length = 0;
  for (const std::uint8_t count : *in->likely()) {
    if (count > kMostLikely) return std::nullopt;
    entries += count;
  }
  std::string bytes = text_of(in->bytes());
  for (const std::uint32_t one : *in->lengths()) length += one;
  if (in->places()->size() != in->likely()->size() || in->lengths()->size() != entries ||
      in->log_probabilities()->size() != entries || length != bytes.size())
    return std::nullopt;
  std::size_t entry = 0, begin = 0;
  bool good = true;
  const auto next = [&] {
    const auto at = static_cast<flatbuffers::uoffset_t>(entry++);
    const float value = in->log_probabilities()->Get(at);
    good = good && (std::isnan(value) || (value <= 0 && std::isfinite(value)));
    const std::size_t size = in->lengths()->Get(at);
    RatedToken token{bytes.substr(begin, size), {}};
    if (!std::isnan(value)) token.log_probability = value;
    begin += size;
    return token;
  };
  Reports reports(in->likely()->size());
  for (std::size_t token = 0; token < reports.size(); ++token) {
    const auto at = static_cast<flatbuffers::uoffset_t>(token);
    reports[token].place = in->places()->Get(at);
    reports[token].token = next();
    for (int left = in->likely()->Get(at); left > 0; --left)
      reports[token].likely.push_back(next());
  }
  return good ? std::optional(std::move(reports)) : std::nullopt;
}

Error bad(const std::string& what) {
  return {ErrorCode::invalid_argument, "generate: " + what};
}

Result<void> check_ranges(const GenerateRequest& request) {
  if (request.max_tokens > 65536) return bad("max_tokens must be at most 65536");
  const struct {
    const char* name;
    double value, low, high;
  } kReals[] = {{"temperature", request.temperature, 0, 100},
                {"top_p", request.top_p, 0, 1},
                {"min_p", request.min_p, 0, 1},
                {"presence_penalty", request.presence_penalty, -2, 2},
                {"frequency_penalty", request.frequency_penalty, -2, 2},
                {"repetition_penalty", request.repetition_penalty, 0.01, 100}};
  for (const auto& [name, value, low, high] : kReals)
    if (!(value >= low && value <= high)) {
      std::ostringstream text;
      text << name << " must be " << low << " to " << high;
      return bad(text.str());
    }
  if (request.client.size() > kLongestClient) return bad("a client's name has at most 64 bytes");
  if (request.priority > kMostPriority) return bad("priority must be 0 to 100");
  if (request.likely.value_or(0) > kMostLikely) return bad("likely must be 0 to 20");
  for (const std::string& sequence : request.stop)
    if (sequence.size() > kLongestStopBytes) return bad("a stop sequence has at most 1024 bytes");
  return {};
}

Result<GenerateMessage> checked(const wire::Request& in, WireBudget budget) {
  GenerateRequest out{.prompt = text_of(in.prompt()),
                      .max_tokens = in.max_tokens(),
                      .temperature = in.temperature(),
                      .top_k = in.top_k(),
                      .top_p = in.top_p(),
                      .min_p = in.min_p(),
                      .presence_penalty = in.presence_penalty(),
                      .frequency_penalty = in.frequency_penalty(),
                      .repetition_penalty = in.repetition_penalty(),
                      .stop = {},
                      .seed = in.seed(),
                      .timeout_ms = in.timeout_ms(),
                      .stream = in.stream(),
                      .priority = in.priority(),
                      .whole_prompt = in.whole_prompt(),
                      .chat = text_of(in.chat()),
                      .echo = in.echo(),
                      .form = text_of(in.form()),
                      .client = flatbuffers::GetString(in.client())};
  if (in.prompt_tokens())
    out.prompt_tokens.assign(in.prompt_tokens()->begin(), in.prompt_tokens()->end());
  if (in.reports()) out.likely = in.likely();
  if (in.stop() && in.stop()->size() > kMostStops) return bad("stop has at most 16 sequences");
  if (in.stop())
    for (const auto* sequence : *in.stop()) {
      if (!budget.take(sequence->size())) return bad("stop sequences that lie in one another");
      out.stop.push_back(sequence->str());
    }
  if (auto fits = check_ranges(out); !fits) return fits.error();
  return GenerateMessage(std::move(out));
}

}  // namespace

Bytes encode(const GenerateMessage& message) {
  flatbuffers::FlatBufferBuilder builder(1024);
  flatbuffers::Offset<void> body;
  auto kind = wire::Body::Request;
  if (const auto* request = std::get_if<GenerateRequest>(&message)) {
    auto prompt = octets(builder, request->prompt);
    auto stop = builder.CreateVectorOfStrings(request->stop);
    auto chat = octets(builder, request->chat);
    auto tokens = builder.CreateVector(request->prompt_tokens);
    auto form = octets(builder, request->form);
    auto client = builder.CreateString(request->client);
    body = wire::CreateRequest(builder, prompt, request->max_tokens, request->temperature,
                               request->top_k, request->seed, request->timeout_ms, request->top_p,
                               request->min_p, request->presence_penalty,
                               request->frequency_penalty, request->repetition_penalty, stop,
                               request->stream, request->priority, request->whole_prompt, chat,
                               tokens, request->echo, request->likely.has_value(),
                               static_cast<std::uint8_t>(request->likely.value_or(0)), form, client)
               .Union();
  } else if (const auto* piece = std::get_if<GeneratePiece>(&message)) {
    kind = wire::Body::Piece;
    auto text = octets(builder, piece->text);
    auto reports = written(builder, piece->reports);
    body =
        wire::CreatePiece(builder, piece->stream, piece->offset, text, piece->first_report, reports)
            .Union();
  } else {
    const auto& answer = std::get<GenerateAnswer>(message);
    kind = wire::Body::Answer;
    auto text = octets(builder, answer.text);
    auto finish = builder.CreateString(answer.finish);
    auto digest = builder.CreateString(answer.model_digest);
    auto reports = written(builder, answer.reports);
    body = wire::CreateAnswer(builder, text, answer.tokens, finish, digest, answer.step,
                              answer.seconds, answer.prompt_tokens, reports, answer.version)
               .Union();
  }
  builder.Finish(wire::CreateEnvelope(builder, kind, body), wire::EnvelopeIdentifier());
  return finished_bytes(builder);
}

Result<GenerateMessage> decode_generate(ByteView bytes) {
  Error corrupted{ErrorCode::corrupted, "not a request to generate, nor its answer"};
  if (bytes.size() > kLimitBytes || bytes.size() < 8) return corrupted;
  AlignedCopy copy(bytes);
  flatbuffers::Verifier verifier(copy.data(), copy.size(), 8, 32);
  if (!wire::VerifyEnvelopeBuffer(verifier)) return corrupted;
  const wire::Envelope* envelope = wire::GetEnvelope(copy.data());
  if (const wire::Request* request = envelope->body_as_Request())
    return checked(*request, WireBudget(bytes.size()));
  if (const wire::Piece* piece = envelope->body_as_Piece()) {
    auto reports = read_reports(piece->reports());
    if (!reports) return corrupted;
    return GenerateMessage(GeneratePiece{piece->stream(), piece->offset(), text_of(piece->text()),
                                         piece->first_report(), *std::move(reports)});
  }
  const wire::Answer* in = envelope->body_as_Answer();
  if (!in) return corrupted;
  auto reports = read_reports(in->reports());
  if (!reports) return corrupted;
  return GenerateMessage(
      GenerateAnswer{text_of(in->text()), in->tokens(), flatbuffers::GetString(in->finish()),
                     flatbuffers::GetString(in->model_digest()), in->step(), in->seconds(),
                     in->prompt_tokens(), *std::move(reports), in->version()});
}

}  // namespace gpunode::inference
