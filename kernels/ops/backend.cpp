#include "kernels/ops/backend.hpp"

#include <utility>

#include "kernels/ops/operation_list.hpp"

namespace gpunode::ops {
namespace {

using Names = std::vector<std::string_view>;

// Names of the empty entries of a table, up to that of `last`.
struct EmptyEntries {
  const Operations& table;
  std::string_view last;
  Names names = {};
  bool done = false;

  template <auto kEntry>
  void operator()(std::string_view name) {
    if (!done && !(table.*kEntry)) names.push_back(name);
    done = done || name == last;
  }
};

Names empty_entries(const Operations& table, std::string_view last) {
  EmptyEntries entries{table, last};
  for_each_operation(entries);
  return std::move(entries.names);
}

}  // namespace

Names Operations::missing() const {
  return empty_entries(*this, "square_sum");
}

Names Operations::absent() const {
  return empty_entries(*this, "mean_pool_backward");
}

}  // namespace gpunode::ops
