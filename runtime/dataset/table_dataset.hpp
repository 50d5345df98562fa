// Samples from a table: files of numbers, one sample a line, cells separated by tabs, commas or
// spaces, whichever the first row has. The last column is the label, a whole number from 0 on; the
// others are features. A first line whose first cell is no number is a header, and skipped. Rows
// that are held out are drawn over all of them (held_out.hpp).
// Cost: all rows are parsed at the start and kept, 4 bytes a cell.
#pragma once

#include <limits>

#include "runtime/base/result.hpp"
#include "runtime/dataset/dataset.hpp"

namespace gpunode::dataset {

// Whether a first line is one: its first cell is no number.
bool is_header(std::string_view line);

// The numbers of a line that has no label. Fails with invalid_argument: a cell that is no finite
// number, or another number of cells.
Result<std::vector<float>> features_of(std::string_view line, std::size_t count);

class TableDataset final : public Dataset {
 public:
  // Fields: features f32[columns - 1], label i32[1]. Fails with invalid_argument, naming file, line,
  // column and what stands there: a cell that is no finite number, a label that is no whole number
  // from 0 to 2^31 - 1, a line of another length than the first, fewer than two columns, no row.
  // `classes`: labels are below it.
  static Result<std::shared_ptr<const TableDataset>> create(
      std::shared_ptr<const TextSource> source, double validation_fraction,
      std::int32_t classes = std::numeric_limits<std::int32_t>::max());

  std::uint64_t sample_count() const override { return train_.size(); }
  void read_sample(std::uint64_t index, MutableByteView target) const override;
  std::uint64_t held_out_count() const override { return held_out_.size(); }
  void read_held_out(std::uint64_t index, MutableByteView target) const override;

 private:
  TableDataset(std::shared_ptr<const TextSource> source, std::uint32_t columns, Bytes rows,
               double validation_fraction);
  void read(std::uint64_t row, MutableByteView target) const;

  Bytes rows_;                                   // sample_bytes() each
  std::vector<std::uint64_t> train_, held_out_;  // rows
};

}  // namespace gpunode::dataset
