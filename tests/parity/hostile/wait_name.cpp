#include "tests/parity/hostile/wait_name.hpp"

#include <algorithm>
#include <string_view>

namespace gpunode::hostile {
namespace {

std::string without(std::string text, std::string_view part) {
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part))
    text.erase(at, part.size());
  return text;
}

}  // namespace

// The compiler tells  [static] type gpunode::model::{anonymous}::Name::function(arguments)[::<lambda...
std::string wait_name(const tensor::WaitSite& site) {
  std::string text = site.function_name();
  text.resize(std::min(text.size(), text.find('(')));
  text.erase(0, text.rfind(' ') + 1);
  return without(without(std::move(text), "gpunode::"), "{anonymous}::");
}

}  // namespace gpunode::hostile
