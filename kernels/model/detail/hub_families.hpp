// The tables behind hub_weights.hpp: one row a parameter, one row a key of config.json. A new family
// is one more HubFamily.
#pragma once

#include <cstdlib>
#include <span>

#include "kernels/model/hub_weights.hpp"

namespace gpunode::model::detail {

// How much of our parameter's rows one tensor of theirs has.
enum class HubShare : std::uint8_t {
  all,
  half,
  queries,  // of a joined projection: heads / (heads + 2 * kv_heads)
  keys      // and kv_heads / (heads + 2 * kv_heads), as values do
};

// A "*" stands for a number, that of the block; the same ones in both names.
struct HubRow {
  struct Piece {
    std::string_view name;
    HubShare share = HubShare::all;
  };
  std::string_view ours;
  std::vector<Piece> theirs;  // from the first row on
  HubLayout layout = HubLayout::same;
};

// A key of config.json that is a setting of ours under another name.
struct HubKey {
  std::string_view theirs, ours;
  HubValue otherwise = {};  // where it is absent; monostate: it must be there
};

// A key that must have one of these values; absent, it has the first, which is also what we write.
struct HubFixed {
  std::string_view theirs;
  std::vector<HubValue> allowed;
};

struct HubFamily {
  std::string_view kind;
  std::vector<std::string_view> model_types;  // of config.json; none where it has no such key
  std::string_view prefix;                    // older files leave it out
  std::vector<HubRow> rows;
  std::vector<HubKey> keys;
  std::vector<HubFixed> fixed;
  std::vector<std::string_view> passed_over;  // ends of names
  // What the tables cannot say: more settings of a config, and more of a config of settings.
  Result<void> (*read)(const HubConfig& config, Settings& settings);
  void (*write)(const Settings& settings, HubConfig& config);
  // Positions have no table: fewer than the config says may be read.
  bool any_context = false;
};

std::span<const HubFamily> hub_families();
HubFamily resnet_family();

// A whole number of a config. Fails with: invalid_argument, naming the key.
Result<std::int64_t> whole_of(const HubConfig& config, std::string_view key);
// A whole number of settings that have it.
inline std::int64_t number_of(const Settings& settings, const char* key) {
  return std::atoll(settings.at(key).c_str());
}
// As a person would read it in the file.
std::string text_of(const HubValue& value);

}  // namespace gpunode::model::detail
