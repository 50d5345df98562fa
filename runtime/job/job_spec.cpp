#include "runtime/job/job_spec.hpp"

#include <cctype>
#include <charconv>
#include <functional>
#include <limits>
#include <optional>

#include "runtime/base/nearest.hpp"

namespace gpunode::job {
namespace {

std::string number_text(double value) {
  char buffer[64];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return std::string(buffer, end);
}

template <class Number>
std::optional<Number> parse_number(const std::string& text) {
  Number value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string join(const std::vector<std::uint32_t>& values) {
  std::string text;
  for (std::uint32_t value : values) text += (text.empty() ? "" : ",") + std::to_string(value);
  return text;
}

std::optional<std::vector<std::uint32_t>> split(const std::string& text) {
  std::vector<std::uint32_t> values;
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t comma = std::min(text.find(',', at), text.size());
    auto value = parse_number<std::uint32_t>(text.substr(at, comma - at));
    if (!value) return std::nullopt;
    values.push_back(*value);
    at = comma + 1;
  }
  return values;
}

// One row a setting: how it is written, how it is read back, and what a person is told of it. Order is
// the manifest's order.
struct Row {
  const char* key;
  const char* type;  // of its value in a job file
  const char* text;  // meaning and unit, and what raising it buys and costs
  std::function<std::string(const JobSpec&)> get;
  std::function<Result<void>(JobSpec&, const std::string&)> set;
};

Error bad(std::string detail) {
  return {ErrorCode::invalid_argument, std::move(detail)};
}

// `shape`: what a good value looks like.
Error bad_value(const char* key, const char* shape, const std::string& value) {
  return bad(std::string("key '") + key + "' wants " + shape + ", not '" + value + "'");
}

template <class Part, class Number>
Row number_row(const char* key, Part JobSpec::*part, Number Part::*field, const char* text) {
  const char* shape = std::is_floating_point_v<Number> ? "a number" : "a whole number, 0 or more";
  return {key, std::is_floating_point_v<Number> ? "number" : "whole number", text,
          [=](const JobSpec& spec) {
            if constexpr (std::is_floating_point_v<Number>)
              return number_text(spec.*part.*field);
            else
              return std::to_string(spec.*part.*field);
          },
          [=](JobSpec& spec, const std::string& given) -> Result<void> {
            auto value = parse_number<Number>(given);
            if (!value) return bad_value(key, shape, given);
            spec.*part.*field = *value;
            return {};
          }};
}

Row count_row(const char* key, std::uint32_t JobSpec::*field, const char* text) {
  return {key, "whole number", text,
          [=](const JobSpec& spec) { return std::to_string(spec.*field); },
          [=](JobSpec& spec, const std::string& given) -> Result<void> {
            auto value = parse_number<std::uint32_t>(given);
            if (!value) return bad_value(key, "a whole number, 0 or more", given);
            spec.*field = *value;
            return {};
          }};
}

Row text_row(const char* key, std::function<std::string&(JobSpec&)> field, const char* text) {
  return {key, "text", text, [=](const JobSpec& spec) { return field(const_cast<JobSpec&>(spec)); },
          [=](JobSpec& spec, const std::string& given) -> Result<void> {
            field(spec) = given;
            return {};
          }};
}

Error no_form(const std::string& text) {
  return bad("exchange.form '" + text +
             "': in mode local changes travel as exact, bf16, int8 or topk");
}

const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
      text_row(
          "name", [](JobSpec& s) -> std::string& { return s.name; },
          "What people call the job, 1 to 64 letters, digits, '-', '_' and '.'. Required."),
      count_row(
          "nodes", &JobSpec::nodes,
          "How many nodes compute, at most. More: faster steps as long as a slice each is left and "
          "links carry the sums; one node of a larger cluster trains where it is 1."),
      count_row("min_nodes", &JobSpec::min_nodes,
                "With how many it begins, and goes on. More: it rather waits than goes on slowly."),
      text_row(
          "on_lost_quorum", [](JobSpec& s) -> std::string& { return s.on_lost_quorum; },
          "\"wait\" for nodes that the last view's majority needs, or \"continue\" without them: "
          "nobody waits, and where two parts went on apart the work of one is given up."),
      text_row(
          "data.path", [](JobSpec& s) -> std::string& { return s.data.path; },
          "A file or folder with the same bytes on every node; a relative path starts at the job "
          "file's folder. Required."),
      text_row(
          "data.format", [](JobSpec& s) -> std::string& { return s.data.format; },
          "\"text\": bytes. \"tokens\": token ids as whole numbers, little-endian. \"table\": "
          "numbers, a sample a line, its label last."),
      number_row("data.token_bytes", &JobSpec::data, &DataSpec::token_bytes,
                 "Bytes of a token id in format tokens: 2, or 4 for vocabularies above 65536."),
      number_row("data.validation_fraction", &JobSpec::data, &DataSpec::validation_fraction,
                 "Share of the data that is never trained on, drawn over all of it, 0 to below 1. "
                 "More: a surer validation loss, less to learn from."),
      text_row(
          "data.validation_path", [](JobSpec& s) -> std::string& { return s.data.validation_path; },
          "A file or folder of the same format to validate on; all of data.path is trained on "
          "then."),
      text_row(
          "data.set", [](JobSpec& s) -> std::string& { return s.data.set; },
          "Instead of data.path: the name under which every node offers the data, by [data.NAME] "
          "in "
          "its gpunode.toml; it may lie at another path on each."),
      text_row(
          "data.validation_set", [](JobSpec& s) -> std::string& { return s.data.validation_set; },
          "Instead of data.validation_path, likewise."),
      text_row(
          "model.kind", [](JobSpec& s) -> std::string& { return s.model_kind; },
          "gpt, llama, bert, mlp, resnet, or a kind that the program of the nodes brings. Its own "
          "keys stand in [model] too."),
      text_row(
          "model.start", [](JobSpec& s) -> std::string& { return s.model_start; },
          "A file of `gpunode model import` or `checkpoint export` whose weights are those before "
          "the first step. Empty: drawn by train.seed."),
      number_row("train.seed", &JobSpec::train, &TrainSpec::seed,
                 "Of the first weights and of the order of the data. Same seed, same result."),
      number_row(
          "train.steps", &JobSpec::train, &TrainSpec::steps,
          "Updates of the weights. More: longer, and better until the data is learned by heart."),
      number_row("train.batch", &JobSpec::train, &TrainSpec::batch,
                 "Samples a step. More: steadier gradients, longer steps."),
      number_row("train.slices", &JobSpec::train, &TrainSpec::slices,
                 "Parts of a batch that are computed apart and summed in a fixed order. It is part "
                 "of the result. More: more nodes can share a step and balance it; more memory for "
                 "sums, less work at once."),
      {"train.tree", "list of whole numbers",
       "Radices of the order in which slices are summed, such as [3, 2, 2]; their product is "
       "train.slices. Empty: in pairs. Groups of three suit three members.",
       [](const JobSpec& s) { return join(s.train.tree); },
       [](JobSpec& s, const std::string& text) -> Result<void> {
         auto values = split(text);
         if (!values)
           return bad_value("train.tree", "a list of whole numbers such as [3, 2, 2]", text);
         s.train.tree = *values;
         return {};
       }},
      number_row("train.learning_rate", &JobSpec::train, &TrainSpec::learning_rate,
                 "After the warm-up. More: faster, and unstable beyond some point."),
      number_row("train.min_learning_rate", &JobSpec::train, &TrainSpec::min_learning_rate,
                 "Where the cosine decay ends, at the last step."),
      number_row("train.warmup_steps", &JobSpec::train, &TrainSpec::warmup_steps,
                 "Steps in which the rate rises to train.learning_rate. More: a calmer beginning."),
      number_row("train.beta1", &JobSpec::train, &TrainSpec::beta1,
                 "AdamW: how slowly the mean gradient forgets, below 1."),
      number_row("train.beta2", &JobSpec::train, &TrainSpec::beta2,
                 "AdamW: how slowly the mean square forgets, below 1."),
      number_row("train.epsilon", &JobSpec::train, &TrainSpec::epsilon,
                 "AdamW: what is added to the root of the mean square."),
      number_row(
          "train.weight_decay", &JobSpec::train, &TrainSpec::weight_decay,
          "AdamW: share of the rate by which weights shrink a step. More: less learned by heart."),
      number_row("train.clip", &JobSpec::train, &TrainSpec::clip,
                 "Largest norm of a gradient, 0: no clipping. Smaller: calmer; a clipped sum is "
                 "waited for as a whole."),
      {"train.precision", "text",
       "Of the factors of products: fp32, bf16 (faster where the processor has it, noisier) or "
       "tf32 (NVIDIA). Weights and sums stay fp32.",
       [](const JobSpec& s) { return std::string(to_string(s.train.precision)); },
       [](JobSpec& s, const std::string& text) -> Result<void> {
         auto precision = parse_precision(text);
         if (!precision) return precision.error().within("train.precision");
         s.train.precision = *precision;
         return {};
       }},
      number_row("checkpoint.every", &JobSpec::checkpoint, &CheckpointSpec::every,
                 "Steps between checkpoints; the last step always is one. 0: only it. Fewer steps: "
                 "less is lost where all members die, more is written."),
      number_row("checkpoint.keep", &JobSpec::checkpoint, &CheckpointSpec::keep,
                 "Newest checkpoints kept on each disk. More: further back, more space."),
      text_row(
          "exchange.bulk", [](JobSpec& s) -> std::string& { return s.bulk; },
          "\"sealed\", or \"plain\": faster, and trusts all who can read or inject on that "
          "network; nodes must be started with --bulk-plain."),
      {"exchange.mode", "text",
       "exact (the same bits whoever takes part), hierarchical (the same bits, fewer bytes between "
       "sites), ring, bf16, int8, topk (fewer bytes, the result depends on who takes part), local "
       "(rarely exchanged, for very slow links).",
       [](const JobSpec& s) { return facts_of(s.exchange.mode).name; },
       [](JobSpec& s, const std::string& text) -> Result<void> {
         auto mode = parse_exchange_mode(text);
         if (!mode) return mode.error();
         s.exchange.mode = *mode;
         return {};
       }},
      text_row(
          "exchange.group_by", [](JobSpec& s) -> std::string& { return s.exchange.group_by; },
          "Mode hierarchical: what one site is, \"machine\" or the key of a label."),
      text_row(
          "exchange.device_link", [](JobSpec& s) -> std::string& { return s.exchange.device_link; },
          "\"auto\": sums of mode exact go from GPU to GPU where they can reach each other. "
          "\"off\": over the hosts' links. Same bits."),
      number_row("exchange.density", &JobSpec::exchange, &ExchangeSpec::density,
                 "Mode topk: share of the values that is sent. More: nearer to exact, more bytes."),
      number_row(
          "exchange.inner_steps", &JobSpec::exchange, &ExchangeSpec::inner_steps,
          "Mode local: steps that a member does alone. More: fewer bytes, coarser training."),
      {"exchange.form", "text",
       "Mode local: how changes of weights travel: exact, bf16, int8 or topk.",
       [](const JobSpec& s) { return facts_of(s.exchange.form).name; },
       [](JobSpec& s, const std::string& text) -> Result<void> {
         auto mode = parse_exchange_mode(text);
         if (!mode) return no_form(text);
         s.exchange.form = *mode;
         return {};
       }},
      number_row("exchange.outer_rate", &JobSpec::exchange, &ExchangeSpec::outer_rate,
                 "Mode local: how far the members' mean change is followed."),
      number_row("exchange.outer_momentum", &JobSpec::exchange, &ExchangeSpec::outer_momentum,
                 "Mode local: how much of the last changes goes on."),
      number_row(
          "exchange.rounds_ahead", &JobSpec::exchange, &ExchangeSpec::rounds_ahead,
          "Mode local: 1: changes travel while the next round is computed; 0: it waits for them."),
  };
  return table;
}

// No place in the order of the data, and no count of samples below it, leaves 64 bits.
constexpr std::uint32_t kMaxBatch = 1u << 24;
constexpr std::uint64_t kMaxSteps = 1'000'000'000'000;  // inner ones included
static_assert(kMaxSteps + 2 <= std::numeric_limits<std::uint64_t>::max() / kMaxBatch);

// The optimizer works in 32 bits: what is too large for them, or vanishes in them, is no setting.
constexpr double kLargest = std::numeric_limits<float>::max();
constexpr double kSmallest = std::numeric_limits<float>::min();

Result<void> validate_train(const TrainSpec& train) {
  if (train.steps < 1 || train.steps > kMaxSteps)
    return bad("train.steps must be 1 to " + std::to_string(kMaxSteps));
  if (train.slices < 1 || train.slices > 4096) return bad("train.slices must be 1 to 4096");
  if (train.batch < train.slices)
    return bad("train.batch (" + std::to_string(train.batch) + ") must be at least train.slices (" +
               std::to_string(train.slices) + "): a slice needs a sample");
  if (train.batch > kMaxBatch)
    return bad("train.batch (" + std::to_string(train.batch) + ") must be at most " +
               std::to_string(kMaxBatch) + " samples a step");
  if (!train.tree.empty()) {
    auto tree = collective::Tree::of_radices(train.tree);
    if (!tree) return tree.error().within("train.tree");
    if (tree->slice_count() != train.slices)
      return bad("train.tree has " + std::to_string(tree->slice_count()) +
                 " slices, train.slices says " + std::to_string(train.slices));
  }
  for (const auto& [key, value] : {std::pair{"learning_rate", train.learning_rate},
                                   {"min_learning_rate", train.min_learning_rate},
                                   {"weight_decay", train.weight_decay},
                                   {"clip", train.clip}})
    if (!(value >= 0 && value <= kLargest))
      return bad(std::string("train.") + key + " must be 0 or more, and fit a 32-bit number");
  if (!(train.epsilon >= kSmallest && train.epsilon <= kLargest))
    return bad("train.epsilon must be above 0, and fit a 32-bit number; 1e-8 is usual");
  if (!(train.beta1 >= 0 && train.beta1 < 1 && train.beta2 >= 0 && train.beta2 < 1))
    return bad("train.beta1 and train.beta2 must be at least 0 and below 1");
  return {};
}

Result<void> validate_exchange(const ExchangeSpec& exchange) {
  const ExchangeModeFacts& form = facts_of(exchange.form);
  if (!form.is_form) return no_form(form.name);
  if (exchange.group_by.empty() || exchange.group_by.find('=') != std::string::npos)
    return bad("exchange.group_by '" + exchange.group_by +
               "': wants \"machine\", or the key of a label that nodes carry, such as \"rack\"");
  if (exchange.device_link != "auto" && exchange.device_link != "off")
    return bad("exchange.device_link '" + exchange.device_link +
               "': wants \"auto\" (from GPU to GPU where that is possible) or \"off\"");
  if (!(exchange.density > 0 && exchange.density <= 1))
    return bad(
        "exchange.density must be above 0 and at most 1: the share of values that topk sends");
  if (exchange.inner_steps < 1 || exchange.inner_steps > 100'000)
    return bad("exchange.inner_steps must be 1 to 100000");
  if (!(exchange.outer_rate > 0 && exchange.outer_rate <= 10))
    return bad("exchange.outer_rate must be above 0 and at most 10; 0.7 is usual");
  if (!(exchange.outer_momentum >= 0 && exchange.outer_momentum < 1))
    return bad("exchange.outer_momentum must be at least 0 and below 1; 0.9 is usual");
  if (exchange.rounds_ahead > 1)
    return bad("exchange.rounds_ahead must be 0 or 1: one round at most is behind the next");
  return {};
}

}  // namespace

std::vector<std::string> known_keys(const std::string& section) {
  std::vector<std::string> keys;
  for (const Row& row : rows()) {
    std::string key = row.key;
    std::size_t dot = key.find('.');
    std::string part = dot == std::string::npos ? "" : key.substr(0, dot);
    if (part == section) keys.push_back(dot == std::string::npos ? key : key.substr(dot + 1));
  }
  if (section.empty()) keys.push_back("labels");
  return keys;
}

Result<void> set(JobSpec& spec, const std::string& key, const std::string& value) {
  std::vector<std::string> keys;
  for (const Row& row : rows()) {
    if (key == row.key) return row.set(spec, value);
    keys.push_back(row.key);
  }
  return bad(unknown_word("key", key, keys));
}

std::vector<std::pair<std::string, std::string>> settings_of(const JobSpec& spec) {
  std::vector<std::pair<std::string, std::string>> settings;
  for (const Row& row : rows()) settings.emplace_back(row.key, row.get(spec));
  return settings;
}

std::vector<SettingText> setting_texts() {
  const JobSpec defaults;
  std::vector<SettingText> texts = {
      {"labels", "list of texts", "", "Labels that a node must carry, such as [\"gpu\"]."}};
  for (const Row& row : rows()) texts.push_back({row.key, row.type, row.get(defaults), row.text});
  return texts;
}

Result<void> validate(const JobSpec& spec) {
  if (spec.name.empty() || spec.name.size() > 64)
    return bad("a job needs a name of 1 to 64 characters");
  for (char c : spec.name)
    if (!(std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.'))
      return bad("job name '" + spec.name + "': use letters, digits, '-', '_' and '.'");
  if (spec.name[0] == '-' || spec.name[0] == '.')
    return bad("job name '" + spec.name +
               "' would be taken for a flag or a path: begin with a letter, a digit or '_'");
  if (spec.nodes < 1 || spec.nodes > 1024) return bad("nodes must be 1 to 1024");
  if (spec.min_nodes < 1 || spec.min_nodes > spec.nodes)
    return bad("min_nodes must be 1 to nodes (" + std::to_string(spec.nodes) + ")");
  if (spec.on_lost_quorum != "wait" && spec.on_lost_quorum != "continue")
    return bad("on_lost_quorum must be \"wait\" or \"continue\", not '" + spec.on_lost_quorum +
               "'");
  const DataSpec& data = spec.data;
  if (data.path.empty() && data.set.empty())
    return bad("data.path is missing: name a file or a folder, or data.set, which nodes offer");
  if (!data.path.empty() && !data.set.empty())
    return bad("data.path and data.set: name the data by one of them");
  if (!data.validation_path.empty() && !data.validation_set.empty())
    return bad("data.validation_path and data.validation_set: name it by one of them");
  const std::string& format = spec.data.format;
  if (format != "text" && format != "tokens" && format != "table")
    return bad("data.format must be \"text\", \"tokens\" or \"table\", not '" + format + "'");
  if (spec.data.token_bytes != 2 && spec.data.token_bytes != 4)
    return bad("data.token_bytes must be 2 or 4");
  if (!(spec.data.validation_fraction >= 0 && spec.data.validation_fraction < 1))
    return bad("data.validation_fraction must be at least 0 and below 1");
  if (auto valid = validate_train(spec.train); !valid) return valid;
  if (spec.checkpoint.keep < 1) return bad("checkpoint.keep must be at least 1");
  if (spec.bulk != "sealed" && spec.bulk != "plain")
    return bad("exchange.bulk must be \"sealed\" or \"plain\", not '" + spec.bulk + "'");
  if (auto valid = validate_exchange(spec.exchange); !valid) return valid;
  if (spec.inner_steps() > kMaxSteps / spec.train.steps)
    return bad("train.steps times exchange.inner_steps must be at most " +
               std::to_string(kMaxSteps));
  return {};
}

collective::Tree tree_of(const TrainSpec& train) {
  if (train.tree.empty()) return collective::Tree::of_slices(train.slices);
  return *collective::Tree::of_radices(train.tree);
}

}  // namespace gpunode::job
