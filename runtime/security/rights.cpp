#include "runtime/security/rights.hpp"

#include <algorithm>

#include "runtime/base/error.hpp"
#include "runtime/base/nearest.hpp"

namespace gpunode::security {

const std::vector<std::string>& names_of_rights() {
  static const std::vector<std::string> names = {"compute", "submit",  "serve",  "call",
                                                 "admit",   "operate", "observe"};
  return names;
}

std::string to_text(Rights rights) {
  std::string text;
  const auto& names = names_of_rights();
  for (std::size_t bit = 0; bit < names.size(); ++bit)
    if (rights & (Rights{1} << bit)) text += (text.empty() ? "" : ", ") + names[bit];
  return text.empty() ? "none" : text;
}

Result<Rights> parse_rights(std::string_view text) {
  if (text == "all") return kAllRights;
  const auto& names = names_of_rights();
  Rights rights = 0;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    std::string_view word = text.substr(0, comma);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    const auto found = std::ranges::find(names, word);
    if (found == names.end())
      return Error{ErrorCode::invalid_argument, unknown_word("right", word, names)};
    rights |= Rights{1} << (found - names.begin());
  }
  if (rights == 0)
    return Error{ErrorCode::invalid_argument,
                 "a node without any right could only watch; name some of " + to_text(kAllRights)};
  return rights;
}

}  // namespace gpunode::security
