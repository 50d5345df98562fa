#include "actors/inference/generate_codec.hpp"

#include <cmath>

#include "runtime/base/aligned_copy.hpp"
#include "schemas/generate_generated.h"

namespace gpunode::inference {

namespace wire = gpunode::wire::generate;

namespace {

constexpr std::size_t kLimitBytes = 1u << 20;

auto octets(flatbuffers::FlatBufferBuilder& builder, const std::string& text) {
  return builder.CreateVector(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
}

std::string text_of(const flatbuffers::Vector<std::uint8_t>* bytes) {
  return bytes ? std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()) : "";
}

Result<GenerateMessage> checked(const wire::Request& in) {
  GenerateRequest out{text_of(in.prompt()), in.max_tokens(), in.temperature(),
                      in.top_k(),           in.seed(),       in.timeout_ms()};
  auto bad = [](const char* what) {
    return Error{ErrorCode::invalid_argument, std::string("generate: ") + what};
  };
  if (out.max_tokens < 1 || out.max_tokens > 65536) return bad("max_tokens must be 1 to 65536");
  if (!(out.temperature >= 0 && out.temperature <= 100)) return bad("temperature must be 0 to 100");
  return GenerateMessage(std::move(out));
}

}  // namespace

Bytes encode(const GenerateMessage& message) {
  flatbuffers::FlatBufferBuilder builder(1024);
  flatbuffers::Offset<void> body;
  auto kind = wire::Body::Request;
  if (const auto* request = std::get_if<GenerateRequest>(&message)) {
    auto prompt = octets(builder, request->prompt);
    body = wire::CreateRequest(builder, prompt, request->max_tokens, request->temperature,
                               request->top_k, request->seed, request->timeout_ms)
               .Union();
  } else {
    const auto& answer = std::get<GenerateAnswer>(message);
    kind = wire::Body::Answer;
    auto text = octets(builder, answer.text);
    auto finish = builder.CreateString(answer.finish);
    auto digest = builder.CreateString(answer.model_digest);
    body = wire::CreateAnswer(builder, text, answer.tokens, finish, digest, answer.step,
                              answer.seconds)
               .Union();
  }
  builder.Finish(wire::CreateEnvelope(builder, kind, body), wire::EnvelopeIdentifier());
  return finished_bytes(builder);
}

Result<GenerateMessage> decode_generate(ByteView bytes) {
  Error corrupted{ErrorCode::corrupted, "not a request to generate, nor its answer"};
  if (bytes.size() > kLimitBytes || bytes.size() < 8) return corrupted;
  AlignedCopy copy(bytes);
  flatbuffers::Verifier verifier(copy.data(), copy.size(), 8, 16);
  if (!wire::VerifyEnvelopeBuffer(verifier)) return corrupted;
  const wire::Envelope* envelope = wire::GetEnvelope(copy.data());
  if (const wire::Request* request = envelope->body_as_Request()) return checked(*request);
  const wire::Answer* in = envelope->body_as_Answer();
  if (!in) return corrupted;
  return GenerateMessage(
      GenerateAnswer{text_of(in->text()), in->tokens(), flatbuffers::GetString(in->finish()),
                     flatbuffers::GetString(in->model_digest()), in->step(), in->seconds()});
}

}  // namespace gpunode::inference
