// Files of others and what a person or a client writes: checkpoints, weights, job files, data, and
// commands on the local socket.
#include "actors/job/job_file.hpp"
#include "actors/node/command_arguments.hpp"
#include "actors/node/endpoints.hpp"
#include "runtime/base/ip_address.hpp"
#include "runtime/chat/chat_template.hpp"
#include "runtime/dataset/table_dataset.hpp"
#include "runtime/dataset/text_dataset.hpp"
#include "runtime/snapshot/manifest_codec.hpp"
#include "runtime/snapshot/safetensors.hpp"
#include "runtime/tokenizer/text_stream.hpp"
#include "runtime/transport/detail/tcp.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace gpunode::fuzz {
namespace {

// The check sum behind the manifest is put right.
void run_checkpoint(ByteView input) {
  using namespace snapshot;
  Bytes file = to_bytes(input);
  const storage::Sha256 hash = storage::sha256_of(file);
  file.insert(file.end(), hash.value.begin(), hash.value.end());
  round_trip(file, decode_manifest, encode_manifest);
  (void)decode_manifest(input);
}

std::vector<Bytes> checkpoints() {
  using namespace snapshot;
  Manifest manifest;
  manifest.meta.job_name = "text";
  manifest.meta.model = {"gpt", {{"layers", "2"}}};
  manifest.shards = {
      {"weight-000.safetensors", TensorPart::weight, (1u << 20) + 5, {}, {{1, 2}, {3, 4}}}};
  manifest.parameters = {{"a", ElementType::f32, {2, 3}, {0, -1, -1}},
                         {"b", ElementType::f32, {}, {0, -1, -1}}};
  const Bytes file = encode_manifest(manifest);
  return {Bytes(file.begin(), file.end() - 32)};
}

void run_safetensors(ByteView input) {
  using namespace snapshot;
  constexpr std::uint64_t kFile = 1 << 20;
  (void)safetensors_header_bytes(input, kFile);
  for (const std::uint64_t file_bytes : {std::uint64_t{input.size()}, kFile}) {
    const auto header = decode_safetensors_header(input, file_bytes);
    if (!header) continue;
    const Bytes again = encode_safetensors_header(*header);
    const std::uint64_t data = header->file_bytes() - header->data_offset;
    const auto second = decode_safetensors_header(again, again.size() + data);
    GPUNODE_CHECK(
        second && second->tensors == header->tensors && second->metadata == header->metadata,
        "a header has two meanings");
  }
}

std::vector<Bytes> safetensors() {
  using namespace snapshot;
  const SafetensorsHeader header = plan_safetensors(
      {{"a", ElementType::f32, {2, 2}}, {"b", ElementType::bf16, {3}}}, {{"format", "pt"}});
  Bytes file = encode_safetensors_header(header);
  file.resize(header.file_bytes());
  return {file};
}

// Whatever a file makes of texts, it does without end or harm: they are told in tokens and back.
void run_tokenizer(ByteView input) {
  const auto made = tokenizer::Tokenizer::parse(as_text(input));
  if (!made) return;
  for (const char* text : {"", "ab <s> It's 12\u00a0caf\u00e9 \U0001F600\n\n  x", "aaaaaaaab"}) {
    const auto tokens = (*made)->encode(text);
    if (!tokens) continue;
    tokenizer::TextStream stream(*made);
    for (const tokenizer::Token token : *tokens) {
      GPUNODE_CHECK(token >= 0 && static_cast<std::size_t>(token) < (*made)->vocabulary(),
                    "a token outside the vocabulary");
      (void)stream.add(token);
    }
    (void)stream.end();
    (void)(*made)->decode(*tokens, true);
  }
}

std::vector<Bytes> tokenizers() {
  return {
      text_bytes(
          R"({"added_tokens":[{"id":7,"content":"<s>","special":true}],"normalizer":{"type":"NFC"},)"
          R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},)"
          R"("decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,)"
          R"("Ġ":3},"merges":["a b"]}})"),
      text_bytes(
          R"({"normalizer":{"type":"BertNormalizer"},"pre_tokenizer":{"type":"BertPreTokenizer"},)"
          R"("post_processor":{"type":"BertProcessing","cls":["[CLS]",1],"sep":["[SEP]",2]},)"
          R"("decoder":{"type":"WordPiece"},"model":{"type":"WordPiece","unk_token":"[UNK]",)"
          R"("vocab":{"[UNK]":0,"[CLS]":1,"[SEP]":2,"a":3,"##b":4}}})"),
      text_bytes(
          R"({"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"_"},)"
          R"({"type":"Replace","pattern":{"Regex":" +"},"content":"_"}]},"pre_tokenizer":)"
          R"({"type":"Split","pattern":{"String":"_"},"behavior":"MergedWithNext"},"decoder":)"
          R"({"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"Fuse"},)"
          R"({"type":"Strip","content":"_","start":1,"stop":0}]},"model":{"type":"BPE",)"
          R"("unk_token":"a","byte_fallback":true,"vocab":{"a":0,"_":1,"_a":2},"merges":[["_","a"]]}})")};
}

// Whatever a template does, it ends, and makes no more than it may.
void run_chat_template(ByteView input) {
  const auto made = chat::ChatTemplate::parse(as_text(input));
  if (!made) return;
  (void)(*made)->render({.messages = R"([{"role":"system","content":" be brief "},)"
                                     R"({"role":"user","content":"h\u00e9"},{"role":"assistant",)"
                                     R"("tool_calls":[{"function":{"name":"f","arguments":{}}}]}])",
                         .tools = R"([{"type":"function","function":{"name":"f","x":[1,2.5]}}])",
                         .documents = {},
                         .more = R"({"n":3,"words":["b","A"]})",
                         .special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}},
                         .now = {}});
}

std::vector<Bytes> chat_templates() {
  return {
      text_bytes("{{ bos_token }}{% for m in messages %}{{ '<' ~ m['role'] + '>\\n' }}"
                 "{{- m.content|trim if m.content is string }}{% if loop.last and "
                 "add_generation_prompt %}{{ '<assistant>' }}{% endif %}{% endfor %}"),
      text_bytes("{%- set ns = namespace(i=0, a=[]) %}\n{%- for t in tools if t.function %}\n"
                 "  {%- set ns.i = ns.i + n // 2 %}{%- set ns.a = ns.a + [t] %}\n"
                 "  {{- t|tojson(indent=2) }}{% break %}\n{%- else %}{# none #}{%- endfor %}\n"
                 "{%- macro m(x, y=1) %}{{ x[::-1] }}{{ y ** 2 }}{% endmacro %}{{ m('abc') }}"),
      text_bytes("{% set x %}a{% endset %}{{ (x * 3).split('a', 1)|join('-')|replace('a', x) }}"
                 "{{ words|sort|map('upper')|list }}{{ {'k': (1, none)}.items()|list }}"
                 "{{ messages|selectattr('role', 'equalto', 'user')|list|length }}"
                 "{{ '%s' % strftime_now('%d %b %Y') }}{{ range(5)[1:]|last }}"),
  };
}

// What can be written down again is; the rest is refused in words.
void run_job_file(ByteView input) {
  (void)jobs::parse_job_file(as_text(input), "/data");
}

std::vector<Bytes> job_files() {
  return {
      text_bytes("name = \"text\"\nnodes = 2\nlabels = [\"gpu\"]\n[data]\npath = \"a.txt\"\n"
                 "[model]\nkind = \"gpt\"\nlayers = 2\n[train]\nsteps = 100\nbatch = 8\n"
                 "learning_rate = 1e-3\n[checkpoint]\nkeep = 2\n[exchange]\nmode = \"local\"\n"),
      text_bytes("name = \"rows\"\n[data]\nset = \"rows\"\nformat = \"table\"\n[model]\n"
                 "kind = \"mlp\"\nfeatures = 4\n")};
}

void run_table(ByteView input) {
  using namespace dataset;
  auto source =
      std::make_shared<const TextSource>(TextSource::from_memory({{"rows.csv", to_bytes(input)}}));
  const auto table = TableDataset::create(source, 0.1, 10);
  if (!table) return;
  Bytes sample((*table)->sample_bytes());
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>((*table)->sample_count(), 50); ++i)
    (*table)->read_sample(i, sample);
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>((*table)->held_out_count(), 50); ++i)
    (*table)->read_held_out(i, sample);
}

// [context 1][stride 1][bytes of a token 1], then the text.
void run_text(ByteView input) {
  using namespace dataset;
  if (input.size() < 4) return;
  TextSettings settings;
  settings.context = std::to_integer<std::uint32_t>(input[0]);
  settings.stride = std::to_integer<std::uint32_t>(input[1]);
  settings.token_bytes = std::to_integer<std::uint32_t>(input[2]);
  settings.vocabulary = 30'000;
  auto source = std::make_shared<const TextSource>(
      TextSource::from_memory({{"a", to_bytes(input.subspan(3))}, {"b", Bytes(3)}}));
  const auto text = TextDataset::create(source, settings);
  if (!text) return;
  Bytes sample((*text)->sample_bytes());
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>((*text)->sample_count(), 20); ++i)
    (*text)->read_sample(i, sample);
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>((*text)->held_out_count(), 20); ++i)
    (*text)->read_held_out(i, sample);
}

std::vector<Bytes> texts() {
  Bytes bytes = text_bytes(std::string("\x08\x01\x01") + std::string(9000, 'a'));
  Bytes tokens = text_bytes(std::string("\x08\x02\x02", 3));
  tokens.resize(6003, std::byte{1});
  return {bytes, tokens};
}

// [length of the command 1][command][arguments]
void run_command(ByteView input) {
  if (input.empty()) return;
  const std::size_t length = std::min(std::to_integer<std::size_t>(input[0]), input.size() - 1);
  (void)node::check_arguments(text_of(input.subspan(1, length)),
                              text_of(input.subspan(1 + length)));
}

std::vector<Bytes> commands() {
  std::vector<Bytes> all;
  for (const auto& [name, arguments] :
       {std::pair("jobs", ""),
        {"job.stop", R"({"job":"text"})"},
        {"token.create", R"({"ttl_seconds":60,"uses":1,"roles":"compute"})"},
        {"job.recover", R"({"job":"text","force":true})"}}) {
    Bytes one{static_cast<std::byte>(std::strlen(name))};
    const Bytes rest = text_bytes(std::string(name) + arguments);
    one.insert(one.end(), rest.begin(), rest.end());
    all.push_back(std::move(one));
  }
  return all;
}

void run_address(ByteView input) {
  const std::string text = text_of(input);
  if (const auto ranges = IpRanges::parse({text}))
    (void)ranges->allow(*IpAddress::parse("10.0.0.1"));
  if (const auto address = IpAddress::parse(text)) {
    const auto again = IpAddress::parse(address->text());
    GPUNODE_CHECK(again && *again == *address, "an address is another one in words");
  }
  if (const auto endpoint = transport::detail::parse_endpoint(text))
    (void)transport::detail::numeric_address(*endpoint);
  (void)transport::detail::reachable(text);
  (void)node::port_of(text);
  if (const auto place = node::parse_host_port(text, 7601)) {
    const auto again = node::parse_host_port(node::tcp_endpoint(*place), 7601);
    GPUNODE_CHECK(again && again->host == place->host && again->port == place->port,
                  "a place is another one in words");
  }
}

}  // namespace

std::vector<Target> file_targets() {
  return {
      {"checkpoint", run_checkpoint, checkpoints},
      {"safetensors", run_safetensors, safetensors},
      {"tokenizer", run_tokenizer, tokenizers},
      {"chat_template", run_chat_template, chat_templates, std::size_t{64} << 20, 400},
      {"job_file", run_job_file, job_files, std::size_t{2} << 20, 200},
      {"table", run_table,
       [] {
         return std::vector<Bytes>{text_bytes("x,y,label\n1,2,0\n3.5,-4e3,1\n0,0,2\n"),
                                   text_bytes("1 2 3\n4 5 6\n")};
       }},
      {"text", run_text, texts},
      {"command", run_command, commands, std::size_t{1} << 20, 200},
      {"address", run_address,
       [] {
         return std::vector<Bytes>{text_bytes("10.0.0.5:7601"), text_bytes("tcp://[fe80::1]:7603"),
                                   text_bytes("10.0.0.0/8"), text_bytes("fd00::/7"),
                                   text_bytes("node.example")};
       }},
  };
}

}  // namespace gpunode::fuzz
