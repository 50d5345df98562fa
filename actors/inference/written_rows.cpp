#include "actors/inference/written_rows.hpp"

#include <map>
#include <ranges>

#include "runtime/base/check.hpp"

namespace gpunode::inference {
namespace {

// Of the first positions of a page.
std::uint64_t first_of(std::size_t count) {
  return count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
}

}  // namespace

WrittenRows::WrittenRows(const model::DecoderPart& part)
    : page_(part.page()), pages_of_text_(part.pages_of_text()), written_(part.extents().pages) {
  GPUNODE_CHECK(page_ >= 1 && page_ <= 64, "a page has a bit a position");
}

std::uint64_t& WrittenRows::page_of(const model::PassRows& rows, std::size_t text,
                                    std::size_t position) {
  return written_[static_cast<std::size_t>(rows.pages[text * pages_of_text_ + position / page_])];
}

bool WrittenRows::is_written(const model::PassRows& rows, std::size_t text, std::size_t last) {
  for (std::size_t position = 0; position <= last; position += page_) {
    const std::uint64_t wanted = first_of(std::min(page_, last + 1 - position));
    if ((page_of(rows, text, position) & wanted) != wanted) return false;
  }
  return true;
}

bool WrittenRows::add(const model::PassRows& rows) {
  before_.clear();
  std::map<std::size_t, std::size_t> last;  // position of a text
  for (std::size_t row = 0; row < rows.positions.size(); ++row) {
    const auto text = static_cast<std::size_t>(rows.texts[row]);
    const auto position = static_cast<std::size_t>(rows.positions[row]);
    std::uint64_t& page = page_of(rows, text, position);
    before_.emplace_back(&page, page);
    page |= std::uint64_t{1} << position % page_;
    last[text] = std::max(last[text], position);
  }
  for (const auto& [text, position] : last)
    if (!is_written(rows, text, position)) return undo(), false;
  return true;
}

void WrittenRows::undo() {
  for (const auto& [page, bits] : before_ | std::views::reverse) *page = bits;
  before_.clear();
}

}  // namespace gpunode::inference
