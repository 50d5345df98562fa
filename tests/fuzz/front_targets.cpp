// What clients send over HTTP: requests as bytes, however they are cut, and the bodies of KServe's protocol.
#include "actors/inference/copy_codec.hpp"
#include "actors/inference/infer_codec.hpp"
#include "actors/inference/kserve.hpp"
#include "actors/inference/part_codec.hpp"
#include "runtime/http/request_reader.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace gpunode::fuzz {
namespace {

constexpr std::size_t kHeadBytes = 1024, kBodyBytes = 4096;

// All requests that the bytes hold, read in pieces of that size.
std::string requests_in(std::string_view bytes, std::size_t piece_bytes) {
  using http::RequestReader;
  RequestReader reader({.head_bytes = kHeadBytes, .body_bytes = kBodyBytes});
  std::string read;
  while (!bytes.empty() && reader.stage() != RequestReader::Stage::failed) {
    const std::string_view piece = bytes.substr(0, piece_bytes);
    bytes.remove_prefix(piece.size());
    reader.add(piece);
    while (reader.stage() == RequestReader::Stage::whole) {
      const http::Request one = reader.take();
      GPUNODE_CHECK(one.body.size() <= kBodyBytes, "a body is longer than it may be");
      read += one.method + ' ' + one.path + '\n';
      for (const auto& [name, value] : one.headers) read += name + ':' + value + '\n';
      read += one.body + '\n';
    }
  }
  return read + std::to_string(reader.status());
}

void run_request(ByteView input) {
  const std::string_view bytes = as_text(input);
  GPUNODE_CHECK(requests_in(bytes, 1) == requests_in(bytes, 7),
                "requests differ by how their bytes come");
}

void run_infer(ByteView input) {
  using namespace inference;
  round_trip(input, decode_infer, [](const InferMessage& one) { return encode_infer(one); });
  if (const auto message = decode_infer(input))
    if (const auto* request = std::get_if<InferRequest>(&*message))
      for (const InferTensor& tensor : request->inputs)
        GPUNODE_CHECK(is_whole(tensor), "a tensor has not what its shape says");
}

// One of the middle of a small model.
class Part final : public model::DecoderPart {
 public:
  Part() { is_.takes = is_.gives = 4; }
  const model::ModelPart& is() const override { return is_; }
  std::size_t context() const override { return 48; }
  std::size_t page() const override { return 16; }
  model::DecoderExtents extents() const override { return {2, 8, 6}; }
  std::size_t vocabulary() const override { return 256; }
  Result<void> run(const model::PassRows&, std::span<const float>, std::span<float>) override {
    return {};
  }

 private:
  model::ModelPart is_;
};

void run_model_copy(ByteView input) {
  using namespace inference;
  round_trip(input, decode_copy, [](const CopyMessage& one) { return encode_copy(one); });
  const auto message = decode_copy(input);
  const auto* content = message ? std::get_if<checkpoint::ModelContent>(&*message) : nullptr;
  if (!content) return;
  std::uint64_t bytes = 0;
  for (std::size_t piece = 0; piece < content->pieces.size(); ++piece)
    bytes += content->piece_bytes(piece);
  GPUNODE_CHECK(bytes == content->image_bytes + content->text_bytes(),
                "the pieces are not what there is");
}

void run_model_part(ByteView input) {
  using namespace inference;
  round_trip(input, decode_part, [](const PartMessage& one) { return encode_part(one); });
  const auto message = decode_part(input);
  const auto* pass = message ? std::get_if<PartPass>(&*message) : nullptr;
  if (!pass) return;
  GPUNODE_CHECK(pass->part.number < pass->part.of, "a part is one of those that there are");
  // As a part does with rows of anybody's.
  static Part part;
  std::vector<float> out(std::min<std::size_t>(pass->rows.positions.size(), 8) * 4);
  if (!model::check_rows(part, pass->rows, pass->values, out.size())) return;
  for (const std::int32_t page : pass->rows.pages)
    GPUNODE_CHECK(page >= 0 && page < 6, "a page that the part does not have");
}

// The first two bytes say how long the JSON is.
void run_kserve(ByteView input) {
  using namespace inference;
  const std::size_t told = number_of(input.first(std::min<std::size_t>(2, input.size())));
  const std::string body = text_of(input.subspan(std::min<std::size_t>(2, input.size())));
  for (const std::optional<std::size_t> json_bytes : {std::optional<std::size_t>(), {told}}) {
    const auto call = kserve::read_infer(body, json_bytes, 1);
    if (!call) continue;
    for (const InferTensor& tensor : call->inputs)
      GPUNODE_CHECK(is_whole(tensor), "a tensor has not what its shape says");
    // As it would be answered by a model that gives back what it reads.
    kserve::InferCall all = *call;
    all.outputs.clear();
    const auto written = kserve::infer_answer("m", all, {call->inputs, "", 0, 0});
    GPUNODE_CHECK(written, "tensors that were read cannot be written");
  }
}

std::vector<Bytes> kserve_bodies() {
  std::vector<Bytes> bodies;
  for (
      const std::string& json :
      {std::string(
           R"({"inputs":[{"name":"features","datatype":"FP32","shape":[1,2],"data":[1,2]}]})"),
       std::string(
           R"({"id":"a","inputs":[{"name":"text_input","datatype":"BYTES","shape":[1],"data":["a"]}],)"
           R"("parameters":{"max_tokens":3,"stop":"."}})"),
       std::string(R"({"inputs":[{"name":"features","datatype":"FP32","shape":[1,1],)"
                   R"("parameters":{"binary_data_size":4}}],)"
                   R"("outputs":[{"name":"class","parameters":{"binary_data":true}}]})")}) {
    const std::string length = {static_cast<char>(json.size() & 255),
                                static_cast<char>(json.size() >> 8)};
    bodies.push_back(text_bytes(length + json + std::string(4, '\0')));
    bodies.push_back(text_bytes(length + json));
  }
  return bodies;
}

}  // namespace

std::vector<Target> front_targets() {
  using namespace inference;
  return {{"http_request", run_request,
           [] {
             return std::vector<Bytes>{
                 text_bytes(
                     "POST /v1/a%20b?c=d+e HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nabGET / "
                     "HTTP/1.1\r\nHost: a\r\n\r\n"),
                 text_bytes("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
                            "Expect: 100-continue\r\n\r\n3;a\r\nabc\r\n0\r\nX: y\r\n\r\n")};
           }},
          {"infer", run_infer,
           [] {
             const InferTensor rows{"features", TensorKind::fp32, {1, 2}, Bytes(8)};
             const InferTensor text{"text", TensorKind::bytes, {1}, Bytes(4)};
             return std::vector<Bytes>{
                 encode_infer(InferRequest{{rows, text}}), encode_infer(InferDescribe{}),
                 encode_infer(InferAnswer{{rows}, "digest", 1, 0.5}),
                 encode_infer(InferDescription{
                     "rows", {{"features", TensorKind::fp32, {-1, 2}}}, {}, "digest", 1})};
           }},
          {"model_copy", run_model_copy,
           [] {
             checkpoint::ModelContent content{.kind = "gpt", .settings = {{"layers", "2"}}};
             checkpoint::describe_bytes(content, {{"config.json", "{}"}}, Bytes(9));
             return std::vector<Bytes>{encode_copy(content), encode_copy(CopyAsk{{}, 3}),
                                       encode_copy(CopyAsk{})};
           }},
          {"model_part", run_model_part,
           [] {
             PartPass pass{.part = {{}, 1, 3}, .life = 7, .rows = {}, .values = {1, 2, 3, 4}};
             pass.rows = {.tokens = {},
                          .positions = {3},
                          .texts = {1},
                          .pages = {0, 1, 2, 3, 4, 5},
                          .chosen = {0}};
             return std::vector<Bytes>{
                 encode_part(pass), encode_part(PartOpen{{{}, 1, 3}, 5, 2, 4, {2, 8, 6}}),
                 encode_part(PartOpened{9}), encode_part(PartClose{{{}, 1, 3}, 9}),
                 encode_part(PartValues{{1, 2, 3, 4}})};
           }},
          {"kserve", run_kserve, kserve_bodies, std::size_t{1} << 20, 200}};
}

}  // namespace gpunode::fuzz
