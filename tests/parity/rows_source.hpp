// A table for trainers under test: 60 rows of features from 0 to 1 and a label, the same every time.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/bytes.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/dataset/text_source.hpp"

namespace gpunode {

// Features of later rows are smaller.
inline std::shared_ptr<dataset::TextSource> rows_source(std::uint64_t features,
                                                        std::uint64_t classes) {
  std::string text;
  for (std::uint64_t row = 0; row < 60; ++row) {
    const double scale = 1000.0 + 40.0 * static_cast<double>(row);
    for (std::uint64_t at = 0; at < features; ++at)
      text += std::to_string(static_cast<double>(mix(row, at) % 1000) / scale) + ",";
    text += std::to_string(row % classes) + "\n";
  }
  const ByteView bytes = as_bytes(text);
  return std::make_shared<dataset::TextSource>(
      dataset::TextSource::from_memory({{"a", Bytes(bytes.begin(), bytes.end())}}));
}

}  // namespace gpunode
