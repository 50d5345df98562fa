// Text for trainers under test: 3000 lower-case letters, the same ones every time.
#pragma once

#include <memory>

#include "runtime/base/bytes.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/dataset/text_source.hpp"

namespace gpunode {

inline std::shared_ptr<dataset::TextSource> letters_source() {
  Bytes bytes(3000);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(97 + mix(5, i) % 26);
  return std::make_shared<dataset::TextSource>(
      dataset::TextSource::from_memory({{"a", std::move(bytes)}}));
}

}  // namespace gpunode
