// Which positions of a cache's pages the head that has them wrote itself. A row attends to all that stand
// before it in its text's pages; what another head left there is not its to read.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/model/decoder_part.hpp"

namespace gpunode::inference {

class WrittenRows {
 public:
  // Of a part as it was opened: nothing is written.
  explicit WrittenRows(const model::DecoderPart& part);

  // Takes down the rows of a pass, good ones (check_rows), unless one follows on a position that neither
  // they nor a pass before has written.
  bool add(const model::PassRows& rows);
  // The pass that was taken down last has failed: its positions are unspecified.
  void undo();

 private:
  std::uint64_t& page_of(const model::PassRows& rows, std::size_t text, std::size_t position);
  bool is_written(const model::PassRows& rows, std::size_t text, std::size_t last);

  std::size_t page_;  // positions of one
  std::size_t pages_of_text_;
  std::vector<std::uint64_t> written_;                            // of each page, a bit a position
  std::vector<std::pair<std::uint64_t*, std::uint64_t>> before_;  // what the last pass changed
};

}  // namespace gpunode::inference
