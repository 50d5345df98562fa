#include "runtime/dataset/table_dataset.hpp"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

#include "runtime/base/check.hpp"
#include "runtime/dataset/held_out.hpp"

namespace gpunode::dataset {
namespace {

std::string_view trimmed(std::string_view cell) {
  while (!cell.empty() && (cell.front() == ' ' || cell.front() == '\t')) cell.remove_prefix(1);
  while (!cell.empty() && (cell.back() == ' ' || cell.back() == '\t' || cell.back() == '\r'))
    cell.remove_suffix(1);
  return cell;
}

template <class Number>
std::optional<Number> parsed(std::string_view cell) {
  Number value{};
  const auto [end, failure] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (failure != std::errc() || end != cell.data() + cell.size()) return {};
  return value;
}

// The cells of one line; runs of spaces are one separator.
std::vector<std::string_view> cells_of(std::string_view line, char separator) {
  std::vector<std::string_view> cells;
  line = trimmed(line);
  while (true) {
    const std::size_t at = line.find(separator);
    cells.push_back(trimmed(line.substr(0, at)));
    if (at == std::string_view::npos) return cells;
    line.remove_prefix(at + 1);
    if (separator == ' ') line = trimmed(line);
  }
}

char separator_of(std::string_view line) {
  for (const char separator : {'\t', ','})
    if (line.find(separator) != std::string_view::npos) return separator;
  return ' ';
}

}  // namespace

bool is_header(std::string_view line) {
  return !parsed<float>(cells_of(line, separator_of(trimmed(line))).front());
}

namespace {

// Of a line whose cells are separated as some programs do where the comma is in the numbers.
std::string advice(std::string_view line) {
  return line.find(';') == std::string_view::npos
             ? ""
             : "; commas, tabs or spaces separate cells, not semicolons";
}

class Parser {
 public:
  explicit Parser(std::int32_t classes) : classes_(classes) {}
  Result<void> file(const TextSource::File& file) {
    std::uint64_t number = 0;
    std::string begun;  // a line whose end is in a later piece
    Result<void> done;
    const auto take = [&](std::string_view line) {
      ++number;
      if (trimmed(line).empty()) return;
      place_ = (file.name.empty() ? "" : file.name + ", ") + "line " + std::to_string(number);
      done = row(line, number == 1);
    };
    file.stream([&](ByteView piece) {
      std::string_view text = as_text(piece);
      for (std::size_t end; done && (end = text.find('\n')) != std::string_view::npos;) {
        take(begun.append(text.substr(0, end)));
        begun.clear();
        text.remove_prefix(end + 1);
      }
      begun.append(text);
    });
    if (done && !begun.empty()) take(begun);
    return done;
  }

  std::uint32_t columns() const { return columns_; }
  Bytes take() { return std::move(rows_); }

 private:
  Error wrong(const std::string& what) const {
    return {ErrorCode::invalid_argument, "data: " + place_ + ": " + what};
  }

  Result<void> row(std::string_view line, bool may_be_header) {
    if (columns_ == 0) separator_ = separator_of(trimmed(line));
    const std::vector<std::string_view> cells = cells_of(line, separator_);
    if (may_be_header && is_header(line)) return {};
    if (columns_ == 0) columns_ = static_cast<std::uint32_t>(cells.size());
    if (cells.size() != columns_)
      return wrong("has " + std::to_string(cells.size()) + " cells, the first row has " +
                   std::to_string(columns_));
    if (cells.size() < 2)
      return wrong("a single column is no sample: features and a label are" + advice(line));
    for (std::size_t at = 0; at + 1 < cells.size(); ++at) {
      const auto value = parsed<float>(cells[at]);
      if (!value || !std::isfinite(*value)) return bad_cell(at, cells[at], "no finite number");
      append(*value);
    }
    const auto label = parsed<std::int32_t>(cells.back());
    if (!label || *label < 0)
      return bad_cell(cells.size() - 1, cells.back(),
                      "no label: labels are whole numbers from 0 on");
    if (*label >= classes_)
      return bad_cell(cells.size() - 1, cells.back(),
                      "no class of the model, which has classes = " + std::to_string(classes_));
    append(*label);
    return {};
  }

  Error bad_cell(std::size_t at, std::string_view cell, const std::string& what) const {
    return wrong("column " + std::to_string(at + 1) + ": '" + std::string(cell.substr(0, 40)) +
                 "' is " + what);
  }

  template <class Number>
  void append(Number value) {
    const auto raw = std::as_bytes(std::span(&value, 1));
    rows_.insert(rows_.end(), raw.begin(), raw.end());
  }

  std::int32_t classes_;  // labels are below it
  std::string place_;
  char separator_ = ' ';
  std::uint32_t columns_ = 0;
  Bytes rows_;
};

}  // namespace

Result<std::vector<float>> features_of(std::string_view line, std::size_t count) {
  const std::vector<std::string_view> cells = cells_of(line, separator_of(trimmed(line)));
  if (cells.size() != count)
    return Error{ErrorCode::invalid_argument,
                 "a row of " + std::to_string(cells.size()) + " cells: the model reads " +
                     std::to_string(count) + " features" + advice(line)};
  std::vector<float> features;
  for (const std::string_view cell : cells) {
    const auto value = parsed<float>(cell);
    if (!value || !std::isfinite(*value))
      return Error{ErrorCode::invalid_argument,
                   "'" + std::string(cell.substr(0, 40)) + "' is no finite number"};
    features.push_back(*value);
  }
  return features;
}

Result<std::shared_ptr<const TableDataset>> TableDataset::create(
    std::shared_ptr<const TextSource> source, double validation_fraction, std::int32_t classes) {
  GPUNODE_CHECK(source != nullptr, "a data set without a source");
  if (!(validation_fraction >= 0.0 && validation_fraction < 1.0))
    return Error{ErrorCode::invalid_argument, "data: validation_fraction must be in [0, 1)"};
  Parser parser(classes);
  for (const TextSource::File& file : source->files())
    if (auto done = parser.file(file); !done) return done.error();
  if (parser.columns() == 0)
    return Error{ErrorCode::invalid_argument, "data: the table has no row"};
  return std::shared_ptr<const TableDataset>(
      new TableDataset(std::move(source), parser.columns(), parser.take(), validation_fraction));
}

TableDataset::TableDataset(std::shared_ptr<const TextSource> source, std::uint32_t columns,
                           Bytes rows, double validation_fraction)
    : Dataset(std::move(source),
              {{"features", SampleDtype::f32, columns - 1}, {"label", SampleDtype::i32, 1}}),
      rows_(std::move(rows)) {
  const std::uint64_t count = rows_.size() / sample_bytes();
  const std::vector<bool> held = draw_held_out(count, validation_fraction);
  for (std::uint64_t row = 0; row < count; ++row) (held[row] ? held_out_ : train_).push_back(row);
}

void TableDataset::read(std::uint64_t row, MutableByteView target) const {
  GPUNODE_CHECK(target.size() == sample_bytes(), "a row has another size");
  std::memcpy(target.data(), rows_.data() + row * target.size(), target.size());
}

void TableDataset::read_sample(std::uint64_t index, MutableByteView target) const {
  read(train_.at(index), target);
}

void TableDataset::read_held_out(std::uint64_t index, MutableByteView target) const {
  read(held_out_.at(index), target);
}

}  // namespace gpunode::dataset
