// GPT-2, the Llama family with Mistral and Qwen2, and BERT, as transformers names and writes them.
// ResNets: hub_resnet.cpp.
#include "kernels/model/detail/hub_families.hpp"

namespace gpunode::model::detail {
namespace {

constexpr auto kTransposed = HubLayout::transposed;
using Number = std::int64_t;

const HubValue* given(const HubConfig& config, const char* key) {
  const auto found = config.find(key);
  const bool absent =
      found == config.end() || std::holds_alternative<std::monostate>(found->second);
  return absent ? nullptr : &found->second;
}

HubValue text(const char* value) {
  return std::string(value);
}

// ---- GPT-2: its products are x W with W (in, out), ours are x W^T.
Result<void> read_gpt(const HubConfig& config, Settings& settings) {
  settings["expansion"] = "4";
  if (!given(config, "n_inner")) return {};
  const auto inner = whole_of(config, "n_inner");
  if (!inner) return inner.error();
  const Number channels = number_of(settings, "channels");
  if (channels < 1 || *inner < 1 || *inner % channels != 0)
    return {ErrorCode::unsupported, "config: n_inner = " + std::to_string(*inner) +
                                        " is no multiple of n_embd, as models of kind gpt have it"};
  settings["expansion"] = std::to_string(*inner / channels);
  return {};
}

void write_gpt(const Settings& settings, HubConfig& config) {
  config["architectures.0"] = text("GPT2LMHeadModel");
  config["n_inner"] = number_of(settings, "expansion") * number_of(settings, "channels");
}

HubFamily gpt() {
  return {
      .kind = "gpt",
      .model_types = {"gpt2"},
      .prefix = "transformer.",
      .rows = {{"token_table", {{"transformer.wte.weight"}}},
               {"position_table", {{"transformer.wpe.weight"}}},
               {"blocks.*.norm1.weight", {{"transformer.h.*.ln_1.weight"}}},
               {"blocks.*.norm1.bias", {{"transformer.h.*.ln_1.bias"}}},
               {"blocks.*.attention.weight", {{"transformer.h.*.attn.c_attn.weight"}}, kTransposed},
               {"blocks.*.attention.bias", {{"transformer.h.*.attn.c_attn.bias"}}},
               {"blocks.*.projection.weight",
                {{"transformer.h.*.attn.c_proj.weight"}},
                kTransposed},
               {"blocks.*.projection.bias", {{"transformer.h.*.attn.c_proj.bias"}}},
               {"blocks.*.norm2.weight", {{"transformer.h.*.ln_2.weight"}}},
               {"blocks.*.norm2.bias", {{"transformer.h.*.ln_2.bias"}}},
               {"blocks.*.expand.weight", {{"transformer.h.*.mlp.c_fc.weight"}}, kTransposed},
               {"blocks.*.expand.bias", {{"transformer.h.*.mlp.c_fc.bias"}}},
               {"blocks.*.reduce.weight", {{"transformer.h.*.mlp.c_proj.weight"}}, kTransposed},
               {"blocks.*.reduce.bias", {{"transformer.h.*.mlp.c_proj.bias"}}},
               {"norm.weight", {{"transformer.ln_f.weight"}}},
               {"norm.bias", {{"transformer.ln_f.bias"}}}},
      .keys = {{"n_layer", "layers", Number{12}},
               {"n_head", "heads", Number{12}},
               {"n_embd", "channels", Number{768}},
               {"n_positions", "context", Number{1024}},
               {"vocab_size", "vocabulary", Number{50257}}},
      .fixed = {{"activation_function", {text("gelu_new"), text("gelu_pytorch_tanh")}},
                {"layer_norm_epsilon", {1e-5}},
                {"scale_attn_weights", {true}},
                {"scale_attn_by_inverse_layer_idx", {false}},
                {"add_cross_attention", {false}},
                {"tie_word_embeddings", {true}}},
      .passed_over = {"lm_head.weight", ".attn.bias", ".attn.masked_bias"},
      .read = read_gpt,
      .write = write_gpt};
}

// ---- Llama, Mistral, Qwen2: three projections and two networks that ours joins.
Error not_built(const std::string& what) {
  return {ErrorCode::unsupported, "config: " + what};
}

// A flag that may be absent.
bool is_true(const HubConfig& config, const char* key) {
  const HubValue* value = given(config, key);
  return value && *value == HubValue(true);
}

Result<void> read_rotary(const HubConfig& config, Settings& settings) {
  for (const char* key : {"rope_scaling.type", "rope_scaling.rope_type", "rope_parameters.type",
                          "rope_parameters.rope_type"})
    if (const HubValue* type = given(config, key); type && *type != text("default"))
      return not_built(std::string(key) + " = " + text_of(*type) +
                       ": only rotary positions without scaling are known here");
  settings["theta"] = "10000";
  for (const char* key : {"rope_theta", "rope_parameters.rope_theta"}) {
    if (!given(config, key)) continue;
    const auto theta = whole_of(config, key);
    if (!theta) return theta.error();
    settings["theta"] = std::to_string(*theta);
  }
  return {};
}

Result<void> read_llama(const HubConfig& config, Settings& settings) {
  const std::string type = text_of(config.at("model_type"));
  const Number heads = number_of(settings, "heads"), channels = number_of(settings, "channels");
  const Number head = heads > 0 ? channels / heads : 0;
  if (!given(config, "num_key_value_heads")) settings["kv_heads"] = settings["heads"];
  if (const HubValue* size = given(config, "head_dim"); size && *size != HubValue(head))
    return not_built("head_dim = " + text_of(*size) +
                     ", but heads here are hidden_size / heads = " + std::to_string(head) +
                     " wide");
  if (is_true(config, "attention_bias") && type != "qwen2")
    return not_built(
        "attention_bias = true gives the output projection one too, which is not built");
  const bool windowed = type == "mistral" || is_true(config, "use_sliding_window");
  if (windowed && given(config, "sliding_window")) {
    const auto window = whole_of(config, "sliding_window");
    if (!window) return window.error();
    if (*window < number_of(settings, "context"))
      return not_built("positions see " + std::to_string(*window) +
                       " others only: choose a context of at most that");
  }
  settings["attention_bias"] = type == "qwen2" ? "1" : "0";
  settings["tied"] = is_true(config, "tie_word_embeddings") ? "1" : "0";
  return read_rotary(config, settings);
}

void write_llama(const Settings& settings, HubConfig& config) {
  const bool biased = settings.at("attention_bias") == "1";
  config["model_type"] = text(biased ? "qwen2" : "llama");
  config["architectures.0"] = text(biased ? "Qwen2ForCausalLM" : "LlamaForCausalLM");
  if (biased) config.erase("attention_bias");  // Qwen2 has no such key, and always the biases
  config["tie_word_embeddings"] = settings.at("tied") == "1";
  // Older versions read the first, newer ones the others.
  const auto theta = static_cast<double>(number_of(settings, "theta"));
  config["rope_theta"] = theta;
  config["rope_parameters.rope_theta"] = theta;
  config["rope_parameters.rope_type"] = text("default");
}

HubFamily llama() {
  return {.kind = "llama",
          .model_types = {"llama", "mistral", "qwen2"},
          .prefix = "model.",
          .rows = {{"token_table", {{"model.embed_tokens.weight"}}},
                   {"blocks.*.norm1.weight", {{"model.layers.*.input_layernorm.weight"}}},
                   {"blocks.*.attention.weight",
                    {{"model.layers.*.self_attn.q_proj.weight", HubShare::queries},
                     {"model.layers.*.self_attn.k_proj.weight", HubShare::keys},
                     {"model.layers.*.self_attn.v_proj.weight", HubShare::keys}}},
                   {"blocks.*.attention.bias",
                    {{"model.layers.*.self_attn.q_proj.bias", HubShare::queries},
                     {"model.layers.*.self_attn.k_proj.bias", HubShare::keys},
                     {"model.layers.*.self_attn.v_proj.bias", HubShare::keys}}},
                   {"blocks.*.projection.weight", {{"model.layers.*.self_attn.o_proj.weight"}}},
                   {"blocks.*.norm2.weight", {{"model.layers.*.post_attention_layernorm.weight"}}},
                   {"blocks.*.expand.weight",
                    {{"model.layers.*.mlp.gate_proj.weight", HubShare::half},
                     {"model.layers.*.mlp.up_proj.weight", HubShare::half}}},
                   {"blocks.*.reduce.weight", {{"model.layers.*.mlp.down_proj.weight"}}},
                   {"norm.weight", {{"model.norm.weight"}}},
                   {"head.weight", {{"lm_head.weight"}}}},
          .keys = {{"num_hidden_layers", "layers"},
                   {"num_attention_heads", "heads"},
                   {"num_key_value_heads", "kv_heads", Number{0}},
                   {"hidden_size", "channels"},
                   {"intermediate_size", "hidden"},
                   {"max_position_embeddings", "context"},
                   {"vocab_size", "vocabulary"},
                   {"rms_norm_eps", "epsilon", 1e-6}},
          .fixed = {{"hidden_act", {text("silu")}},
                    {"mlp_bias", {false}},
                    {"partial_rotary_factor", {1.0}},
                    {"pretraining_tp", {Number{1}}}},
          .passed_over = {"lm_head.weight", ".rotary_emb.inv_freq"},
          .read = read_llama,
          .write = write_llama,
          .any_context = true};
}

// ---- BERT with its head of masked tokens.
Result<void> read_bert(const HubConfig& config, Settings& settings) {
  // A config does not tell them: their numbers in BERT's own vocabularies.
  const bool usual = number_of(settings, "vocabulary") > 103;
  settings["opening"] = usual ? "101" : "-1";
  settings["separator"] = usual ? "102" : "-1";
  settings["mask"] = usual ? "103" : "-1";
  settings["mask_seed"] = "1";
  settings["padding"] = "0";
  if (!given(config, "pad_token_id")) return {};
  const auto padding = whole_of(config, "pad_token_id");
  if (!padding) return padding.error();
  settings["padding"] = std::to_string(*padding);
  return {};
}

void write_bert(const Settings& settings, HubConfig& config) {
  config["architectures.0"] = text("BertForMaskedLM");
  const Number padding = number_of(settings, "padding");
  if (padding >= 0)
    config["pad_token_id"] = padding;
  else
    config["pad_token_id"] = std::monostate{};
}

HubFamily bert() {
  return {
      .kind = "bert",
      .model_types = {"bert"},
      .prefix = "bert.",
      .rows = {{"token_table", {{"bert.embeddings.word_embeddings.weight"}}},
               {"position_table", {{"bert.embeddings.position_embeddings.weight"}}},
               {"segment_table", {{"bert.embeddings.token_type_embeddings.weight"}}},
               {"norm.weight", {{"bert.embeddings.LayerNorm.weight"}}},
               {"norm.bias", {{"bert.embeddings.LayerNorm.bias"}}},
               {"blocks.*.attention.weight",
                {{"bert.encoder.layer.*.attention.self.query.weight", HubShare::queries},
                 {"bert.encoder.layer.*.attention.self.key.weight", HubShare::keys},
                 {"bert.encoder.layer.*.attention.self.value.weight", HubShare::keys}}},
               {"blocks.*.attention.bias",
                {{"bert.encoder.layer.*.attention.self.query.bias", HubShare::queries},
                 {"bert.encoder.layer.*.attention.self.key.bias", HubShare::keys},
                 {"bert.encoder.layer.*.attention.self.value.bias", HubShare::keys}}},
               {"blocks.*.projection.weight",
                {{"bert.encoder.layer.*.attention.output.dense.weight"}}},
               {"blocks.*.projection.bias", {{"bert.encoder.layer.*.attention.output.dense.bias"}}},
               {"blocks.*.norm1.weight",
                {{"bert.encoder.layer.*.attention.output.LayerNorm.weight"}}},
               {"blocks.*.norm1.bias", {{"bert.encoder.layer.*.attention.output.LayerNorm.bias"}}},
               {"blocks.*.expand.weight", {{"bert.encoder.layer.*.intermediate.dense.weight"}}},
               {"blocks.*.expand.bias", {{"bert.encoder.layer.*.intermediate.dense.bias"}}},
               {"blocks.*.reduce.weight", {{"bert.encoder.layer.*.output.dense.weight"}}},
               {"blocks.*.reduce.bias", {{"bert.encoder.layer.*.output.dense.bias"}}},
               {"blocks.*.norm2.weight", {{"bert.encoder.layer.*.output.LayerNorm.weight"}}},
               {"blocks.*.norm2.bias", {{"bert.encoder.layer.*.output.LayerNorm.bias"}}},
               {"head.transform.weight", {{"cls.predictions.transform.dense.weight"}}},
               {"head.transform.bias", {{"cls.predictions.transform.dense.bias"}}},
               {"head.norm.weight", {{"cls.predictions.transform.LayerNorm.weight"}}},
               {"head.norm.bias", {{"cls.predictions.transform.LayerNorm.bias"}}},
               {"head.bias", {{"cls.predictions.bias"}}}},
      .keys = {{"num_hidden_layers", "layers", Number{12}},
               {"num_attention_heads", "heads", Number{12}},
               {"hidden_size", "channels", Number{768}},
               {"intermediate_size", "hidden", Number{3072}},
               {"max_position_embeddings", "context", Number{512}},
               {"vocab_size", "vocabulary", Number{30522}},
               {"type_vocab_size", "segments", Number{2}},
               {"layer_norm_eps", "epsilon", 1e-12}},
      .fixed = {{"hidden_act", {text("gelu")}},
                {"position_embedding_type", {text("absolute")}},
                {"is_decoder", {false}},
                {"add_cross_attention", {false}},
                {"tie_word_embeddings", {true}}},
      .passed_over = {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias",
                      "embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias",
                      "cls.seq_relationship.weight", "cls.seq_relationship.bias"},
      .read = read_bert,
      .write = write_bert};
}

}  // namespace

std::span<const HubFamily> hub_families() {
  static const std::vector<HubFamily> families{gpt(), llama(), bert(), resnet_family()};
  return families;
}

}  // namespace gpunode::model::detail
