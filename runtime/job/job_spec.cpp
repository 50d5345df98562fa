#include "runtime/job/job_spec.hpp"

#include <cctype>
#include <charconv>
#include <functional>
#include <limits>
#include <optional>

#include "runtime/base/nearest.hpp"
#include "runtime/job/detail/setting_text.hpp"

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

// One row a setting: how it is written and how it is read back. Order is the manifest's order.
struct Row {
  const char* key;
  const char* type;  // of its value in a job file
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
Row number_row(const char* key, Part JobSpec::*part, Number Part::*field) {
  const char* shape = std::is_floating_point_v<Number> ? "a number" : "a whole number, 0 or more";
  return {key, std::is_floating_point_v<Number> ? "number" : "whole number",
          [=](const JobSpec& spec) {
            if constexpr (std::is_floating_point_v<Number>)
              return number_text(spec.*part.*field);
            else
              return std::to_string(spec.*part.*field);
          },
          [=](JobSpec& spec, const std::string& text) -> Result<void> {
            auto value = parse_number<Number>(text);
            if (!value) return bad_value(key, shape, text);
            spec.*part.*field = *value;
            return {};
          }};
}

Row count_row(const char* key, std::uint32_t JobSpec::*field) {
  return {key, "whole number", [=](const JobSpec& spec) { return std::to_string(spec.*field); },
          [=](JobSpec& spec, const std::string& text) -> Result<void> {
            auto value = parse_number<std::uint32_t>(text);
            if (!value) return bad_value(key, "a whole number, 0 or more", text);
            spec.*field = *value;
            return {};
          }};
}

Row text_row(const char* key, std::function<std::string&(JobSpec&)> field) {
  return {key, "text", [=](const JobSpec& spec) { return field(const_cast<JobSpec&>(spec)); },
          [=](JobSpec& spec, const std::string& text) -> Result<void> {
            field(spec) = text;
            return {};
          }};
}

template <class Part>
Row text_row(const char* key, Part JobSpec::*part, std::string Part::*field) {
  return text_row(key, [=](JobSpec& spec) -> std::string& { return spec.*part.*field; });
}

Error no_form(const std::string& text) {
  return bad("exchange.form '" + text +
             "': in mode local changes travel as exact, bf16, int8 or topk");
}

const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
      text_row("name", [](JobSpec& s) -> std::string& { return s.name; }),
      count_row("nodes", &JobSpec::nodes),
      count_row("min_nodes", &JobSpec::min_nodes),
      text_row("on_lost_quorum", [](JobSpec& s) -> std::string& { return s.on_lost_quorum; }),
      text_row("data.path", &JobSpec::data, &DataSpec::path),
      text_row("data.format", &JobSpec::data, &DataSpec::format),
      number_row("data.token_bytes", &JobSpec::data, &DataSpec::token_bytes),
      number_row("data.validation_fraction", &JobSpec::data, &DataSpec::validation_fraction),
      text_row("data.validation_path", &JobSpec::data, &DataSpec::validation_path),
      text_row("data.set", &JobSpec::data, &DataSpec::set),
      text_row("data.validation_set", &JobSpec::data, &DataSpec::validation_set),
      text_row("model.kind", [](JobSpec& s) -> std::string& { return s.model_kind; }),
      text_row("model.start", [](JobSpec& s) -> std::string& { return s.model_start; }),
      text_row("model.start_set", [](JobSpec& s) -> std::string& { return s.model_start_set; }),
      number_row("train.seed", &JobSpec::train, &TrainSpec::seed),
      number_row("train.steps", &JobSpec::train, &TrainSpec::steps),
      number_row("train.batch", &JobSpec::train, &TrainSpec::batch),
      number_row("train.slices", &JobSpec::train, &TrainSpec::slices),
      {"train.tree", "list of whole numbers", [](const JobSpec& s) { return join(s.train.tree); },
       [](JobSpec& s, const std::string& text) -> Result<void> {
         auto values = split(text);
         if (!values) return bad_value("train.tree", "numbers such as [3, 2, 2]", text);
         s.train.tree = *values;
         return {};
       }},
      number_row("train.learning_rate", &JobSpec::train, &TrainSpec::learning_rate),
      number_row("train.min_learning_rate", &JobSpec::train, &TrainSpec::min_learning_rate),
      number_row("train.warmup_steps", &JobSpec::train, &TrainSpec::warmup_steps),
      number_row("train.beta1", &JobSpec::train, &TrainSpec::beta1),
      number_row("train.beta2", &JobSpec::train, &TrainSpec::beta2),
      number_row("train.epsilon", &JobSpec::train, &TrainSpec::epsilon),
      number_row("train.weight_decay", &JobSpec::train, &TrainSpec::weight_decay),
      number_row("train.clip", &JobSpec::train, &TrainSpec::clip),
      {"train.precision", "text",
       [](const JobSpec& s) { return std::string(to_string(s.train.precision)); },
       [](JobSpec& s, const std::string& text) -> Result<void> {
         auto precision = parse_precision(text);
         if (!precision) return precision.error().within("train.precision");
         s.train.precision = *precision;
         return {};
       }},
      number_row("checkpoint.every", &JobSpec::checkpoint, &CheckpointSpec::every),
      number_row("checkpoint.keep", &JobSpec::checkpoint, &CheckpointSpec::keep),
      text_row("exchange.bulk", [](JobSpec& s) -> std::string& { return s.bulk; }),
      {"exchange.mode", "text", [](const JobSpec& s) { return facts_of(s.exchange.mode).name; },
       [](JobSpec& s, const std::string& text) -> Result<void> {
         auto mode = parse_exchange_mode(text);
         if (!mode) return mode.error();
         s.exchange.mode = *mode;
         return {};
       }},
      text_row("exchange.group_by", &JobSpec::exchange, &ExchangeSpec::group_by),
      text_row("exchange.device_link", &JobSpec::exchange, &ExchangeSpec::device_link),
      number_row("exchange.density", &JobSpec::exchange, &ExchangeSpec::density),
      number_row("exchange.inner_steps", &JobSpec::exchange, &ExchangeSpec::inner_steps),
      {"exchange.form", "text", [](const JobSpec& s) { return facts_of(s.exchange.form).name; },
       [](JobSpec& s, const std::string& text) -> Result<void> {
         auto mode = parse_exchange_mode(text);
         if (!mode) return no_form(text);
         s.exchange.form = *mode;
         return {};
       }},
      number_row("exchange.outer_rate", &JobSpec::exchange, &ExchangeSpec::outer_rate),
      number_row("exchange.outer_momentum", &JobSpec::exchange, &ExchangeSpec::outer_momentum),
      number_row("exchange.rounds_ahead", &JobSpec::exchange, &ExchangeSpec::rounds_ahead),
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

Result<void> validate_data(const DataSpec& data) {
  if (data.path.empty() && data.set.empty())
    return bad("data.path is missing: name a file or a folder, or data.set, which nodes offer");
  if (!data.path.empty() && !data.set.empty())
    return bad("data.path and data.set: name the data by one of them");
  if (!data.validation_path.empty() && !data.validation_set.empty())
    return bad("data.validation_path and data.validation_set: name it by one of them");
  const std::string& format = data.format;
  if (format != "text" && format != "tokens" && format != "table")
    return bad("data.format must be \"text\", \"tokens\" or \"table\", not '" + format + "'");
  if (data.token_bytes != 2 && data.token_bytes != 4) return bad("data.token_bytes must be 2 or 4");
  if (!(data.validation_fraction >= 0 && data.validation_fraction < 1))
    return bad("data.validation_fraction must be at least 0 and below 1");
  return {};
}

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
  std::vector<SettingText> texts = {{"labels", "list of texts", "", setting_text("labels")}};
  for (const Row& row : rows())
    texts.push_back({row.key, row.type, row.get(defaults), setting_text(row.key)});
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
  if (auto valid = validate_data(spec.data); !valid) return valid;
  if (!spec.model_start.empty() && !spec.model_start_set.empty())
    return bad("model.start and model.start_set: name it by one of them");
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
