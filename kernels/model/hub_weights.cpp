#include "kernels/model/hub_weights.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "kernels/model/detail/hub_families.hpp"
#include "runtime/base/check.hpp"

namespace gpunode::model {
namespace detail {

std::string text_of(const HubValue& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return std::to_string(*whole);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  const double* real = std::get_if<double>(&value);
  if (!real) return "null";
  char buffer[64];
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, *real).ptr);
}

Result<std::int64_t> whole_of(const HubConfig& config, std::string_view key) {
  const auto found = config.find(std::string(key));
  if (found != config.end()) {
    if (const auto* whole = std::get_if<std::int64_t>(&found->second)) return *whole;
    const double* real = std::get_if<double>(&found->second);
    if (real && *real == std::floor(*real) && std::fabs(*real) < 1e15)
      return static_cast<std::int64_t>(*real);
  }
  return {ErrorCode::invalid_argument,
          "config: " + std::string(key) +
              (found == config.end() ? " is missing"
                                     : " = " + text_of(found->second) + " is no whole number")};
}

}  // namespace detail

namespace {

using detail::HubFamily;
using detail::HubShare;

// Numbers are equal whatever they are written as.
bool same(const HubValue& a, const HubValue& b) {
  const auto real = [](const HubValue& value) -> std::optional<double> {
    if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
    if (const double* number = std::get_if<double>(&value)) return *number;
    return std::nullopt;
  };
  if (real(a) && real(b)) return *real(a) == *real(b);
  return a == b;
}

Result<const HubFamily*> family_of_kind(std::string_view kind) {
  for (const HubFamily& family : detail::hub_families())
    if (family.kind == kind) return &family;
  return {ErrorCode::unsupported,
          "neither transformers nor torchvision has a counterpart of a model of kind '" +
              std::string(kind) + "'"};
}

Result<const HubFamily*> family_of_config(const HubConfig& config) {
  const auto type = config.find("model_type");
  if (type == config.end())
    return {ErrorCode::invalid_argument, "config: model_type is missing: is it of transformers?"};
  const std::string named = detail::text_of(type->second);
  std::string known;
  for (const HubFamily& family : detail::hub_families())
    for (const std::string_view one : family.model_types) {
      if (one == named) return &family;
      known += (known.empty() ? "" : ", ") + std::string(one);
    }
  return {ErrorCode::unsupported,
          "config: model_type '" + named + "' is not known here; known are " + known};
}

Result<void> check_fixed(const HubFamily& family, const HubConfig& config) {
  for (const detail::HubFixed& fixed : family.fixed) {
    const auto found = config.find(std::string(fixed.theirs));
    if (found == config.end()) continue;
    const auto allowed = [&](const HubValue& value) { return same(value, found->second); };
    if (std::ranges::any_of(fixed.allowed, allowed)) continue;
    std::string wanted;
    for (const HubValue& value : fixed.allowed)
      wanted += (wanted.empty() ? "" : " or ") + detail::text_of(value);
    return {ErrorCode::unsupported, "config: " + std::string(fixed.theirs) + " = " +
                                        detail::text_of(found->second) + ", but models of kind " +
                                        std::string(family.kind) + " have " + wanted};
  }
  return {};
}

std::int64_t setting(const Model& model, const char* name) {
  const Settings settings = model.config();
  const auto found = settings.find(name);
  return found == settings.end() ? 0 : std::atoll(found->second.c_str());
}

std::int64_t rows_of(HubShare share, std::int64_t rows, const Model& model) {
  const std::int64_t heads = setting(model, "heads"), kept = setting(model, "kv_heads");
  const std::int64_t kv_heads = kept == 0 ? heads : kept;
  switch (share) {
    case HubShare::all:
      return rows;
    case HubShare::half:
      return rows / 2;
    case HubShare::queries:
      return rows / (heads + 2 * kv_heads) * heads;
    case HubShare::keys:
      return rows / (heads + 2 * kv_heads) * kv_heads;
  }
  return 0;
}

// The numbers that stand for the "*" of `pattern` in `name`, in their order; nothing where it is
// another name.
std::optional<std::vector<std::string>> match(std::string_view pattern, std::string_view name) {
  std::vector<std::string> numbers;
  for (; !pattern.empty(); pattern.remove_prefix(1)) {
    std::size_t taken = 1;
    if (pattern.front() == '*') {
      taken = std::min(name.find_first_not_of("0123456789"), name.size());
      numbers.emplace_back(name.substr(0, taken));
      if (taken == 0) return std::nullopt;
    } else if (name.empty() || name.front() != pattern.front()) {
      return std::nullopt;
    }
    name.remove_prefix(taken);
  }
  return name.empty() ? std::optional(numbers) : std::nullopt;
}

std::string filled(std::string_view pattern, const std::vector<std::string>& numbers) {
  std::string name;
  std::size_t next = 0;
  for (const char letter : pattern)
    if (letter == '*')
      name += numbers.at(next++);
    else
      name += letter;
  return name;
}

std::vector<std::string> older_names(const HubFamily& family, const std::string& name) {
  std::vector<std::string> names;
  if (!family.prefix.empty() && name.starts_with(family.prefix))
    names.push_back(name.substr(family.prefix.size()));
  // TensorFlow's words, in the first files of BERT.
  for (const auto& [now, then] : {std::pair{"LayerNorm.weight", "LayerNorm.gamma"},
                                  std::pair{"LayerNorm.bias", "LayerNorm.beta"}})
    if (name.ends_with(now)) names.push_back(name.substr(0, name.size() - std::strlen(now)) + then);
  return names;
}

std::vector<std::int64_t> shape_of(HubLayout layout, std::vector<std::int64_t> ours) {
  if (layout == HubLayout::transposed) return {ours.at(1), ours.at(0)};
  if (layout == HubLayout::channels_last) return {ours.at(0), ours.at(3), ours.at(1), ours.at(2)};
  return ours;
}

// Where element `i` of theirs is in ours, counted from the tensor's first.
std::size_t place(const HubTensor& tensor, std::size_t i) {
  if (tensor.layout == HubLayout::same) return i;
  const auto extent = [&](std::size_t at) { return static_cast<std::size_t>(tensor.shape[at]); };
  if (tensor.layout == HubLayout::transposed) return i % extent(1) * extent(0) + i / extent(1);
  const std::size_t kw = i % extent(3), kh = i / extent(3) % extent(2);
  const std::size_t in = i / (extent(3) * extent(2)) % extent(1);
  const std::size_t out = i / (extent(3) * extent(2) * extent(1));
  return ((out * extent(2) + kh) * extent(3) + kw) * extent(1) + in;
}

}  // namespace

Result<HubDescription> model_of_hub(const HubConfig& config, std::int64_t context) {
  const auto family = family_of_config(config);
  if (!family) return family.error();
  HubDescription made{std::string((*family)->kind), {}};
  for (const detail::HubKey& key : (*family)->keys) {
    const auto found = config.find(std::string(key.theirs));
    const bool absent =
        found == config.end() || std::holds_alternative<std::monostate>(found->second);
    if (absent && !std::holds_alternative<std::monostate>(key.otherwise)) {
      made.settings[std::string(key.ours)] = detail::text_of(key.otherwise);
      continue;
    }
    if (!absent && std::holds_alternative<double>(found->second)) {
      made.settings[std::string(key.ours)] = detail::text_of(found->second);
      continue;
    }
    const auto value = detail::whole_of(config, key.theirs);
    if (!value) return value.error();
    made.settings[std::string(key.ours)] = std::to_string(*value);
  }
  if (auto fits = check_fixed(**family, config); !fits) return fits.error();
  std::string& positions = made.settings["context"];
  if (context > 0 && !(*family)->any_context && std::to_string(context) != positions)
    return {ErrorCode::invalid_argument, "models of kind " + made.kind +
                                             " learn their positions: " + "the context stays " +
                                             positions};
  if (context > 0 && std::atoll(positions.c_str()) > context) positions = std::to_string(context);
  if (auto read = (*family)->read(config, made.settings); !read) return read.error();
  return made;
}

Result<HubConfig> hub_config_of(const Model& model) {
  const auto family = family_of_kind(model.kind());
  if (!family) return family.error();
  const Settings settings = model.config();
  HubConfig config;
  if (!(*family)->model_types.empty()) {
    config["model_type"] = std::string((*family)->model_types.front());
    config["dtype"] = std::string("float32");
  }
  for (const detail::HubFixed& fixed : (*family)->fixed)
    config[std::string(fixed.theirs)] = fixed.allowed.front();
  for (const detail::HubKey& key : (*family)->keys) {
    const std::string& value = settings.at(std::string(key.ours));
    const bool whole = value.find_first_not_of("0123456789") == std::string::npos;
    config[std::string(key.theirs)] = whole ? HubValue(std::int64_t{std::atoll(value.c_str())})
                                            : HubValue(std::atof(value.c_str()));
  }
  (*family)->write(settings, config);
  return config;
}

Result<std::vector<HubTensor>> hub_tensors(const Model& model) {
  const auto family = family_of_kind(model.kind());
  if (!family) return family.error();
  std::vector<HubTensor> tensors;
  std::size_t first = 0;
  for (const ParameterSpec& parameter : model.parameters()) {
    const detail::HubRow* row = nullptr;
    std::vector<std::string> numbers;
    for (const detail::HubRow& candidate : (*family)->rows)
      if (const auto matched = match(candidate.ours, parameter.name)) {
        row = &candidate;
        numbers = *matched;
      }
    if (!row)
      return {ErrorCode::unsupported, "there is no counterpart of parameter " + parameter.name};
    std::size_t covered = 0;
    for (const detail::HubRow::Piece& piece : row->theirs) {
      std::vector<std::int64_t> ours = parameter.shape;
      ours[0] = rows_of(piece.share, ours[0], model);
      const std::string name = filled(piece.name, numbers);
      tensors.push_back({name, older_names(**family, name), shape_of(row->layout, ours),
                         parameter.name, first + covered, row->layout});
      covered += tensors.back().element_count();
    }
    GPUNODE_CHECK(covered == parameter.element_count(),
                  "the tensors of " + parameter.name + " do not make it up");
    first += covered;
  }
  return tensors;
}

bool hub_passes_over(const Model& model, std::string_view name) {
  const auto family = family_of_kind(model.kind());
  if (!family) return false;
  const auto ends = [&](std::string_view end) { return name.ends_with(end); };
  return std::ranges::any_of((*family)->passed_over, ends);
}

void from_hub(const HubTensor& tensor, std::span<const float> theirs, std::span<float> parameters) {
  const auto ours = parameters.subspan(tensor.first, tensor.element_count());
  GPUNODE_CHECK(theirs.size() == ours.size(), "another number of elements than " + tensor.name);
  for (std::size_t i = 0; i < theirs.size(); ++i) ours[place(tensor, i)] = theirs[i];
}

void to_hub(const HubTensor& tensor, std::span<const float> parameters, std::span<float> theirs) {
  const auto ours = parameters.subspan(tensor.first, tensor.element_count());
  GPUNODE_CHECK(theirs.size() == ours.size(), "another number of elements than " + tensor.name);
  for (std::size_t i = 0; i < theirs.size(); ++i) theirs[i] = ours[place(tensor, i)];
}

}  // namespace gpunode::model
