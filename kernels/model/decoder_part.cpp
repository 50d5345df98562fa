#include "kernels/model/decoder_part.hpp"

#include <algorithm>

namespace gpunode::model {
namespace {

// Reads texts by parts, of which it has the first.
class PartsDecoder final : public Decoder {
 public:
  PartsDecoder(std::unique_ptr<DecoderPart> first, std::unique_ptr<PartsBehind> behind)
      : first_(std::move(first)), behind_(std::move(behind)) {}

  std::size_t context() const override { return first_->context(); }
  std::size_t page() const override { return first_->page(); }
  std::size_t pages() const override { return first_->extents().pages; }
  std::size_t most_texts() const override { return first_->extents().texts; }
  std::size_t most_rows() const override { return first_->extents().rows; }
  bool steps_back() const override { return true; }

  Result<std::uint64_t> ready() override { return behind_ ? behind_->ready() : Decoder::ready(); }

  Result<void> read(std::span<const TextPart> parts, std::span<float> scores_out) override {
    if (auto good = check_parts(*this, first_->vocabulary(), parts, scores_out.size()); !good)
      return good;
    if (parts.empty()) return {};
    lay_out(parts);
    if (!behind_) return first_->run(rows_, {}, scores_out);
    carried_.resize(rows_.tokens.size() * first_->is().gives);
    if (auto done = first_->run(rows_, {}, carried_); !done) return done;
    return behind_->run(rows_, carried_, scores_out);
  }

 private:
  // The parts as rows.
  void lay_out(std::span<const TextPart> parts) {
    const std::size_t most = first_->pages_of_text();
    for (auto* list : {&rows_.tokens, &rows_.positions, &rows_.texts, &rows_.chosen}) list->clear();
    rows_.pages.assign(most_texts() * most, 0);
    for (std::size_t text = 0; text < parts.size(); ++text) {
      const TextPart& part = parts[text];
      rows_.tokens.insert(rows_.tokens.end(), part.tokens.begin(), part.tokens.end());
      for (std::size_t at = 0; at < part.tokens.size(); ++at)
        rows_.positions.push_back(static_cast<std::int32_t>(part.position + at));
      rows_.texts.resize(rows_.tokens.size(), static_cast<std::int32_t>(text));
      for (std::size_t at = rows_.tokens.size() - part.scored; at < rows_.tokens.size(); ++at)
        rows_.chosen.push_back(static_cast<std::int32_t>(at));
      std::copy_n(part.pages.begin(), std::min(part.pages.size(), most),
                  rows_.pages.begin() + static_cast<std::ptrdiff_t>(text * most));
    }
  }

  std::unique_ptr<DecoderPart> first_;
  std::unique_ptr<PartsBehind> behind_;
  PassRows rows_;               // of a pass
  std::vector<float> carried_;  // from the first part
};

}  // namespace

std::unique_ptr<Decoder> decoder_of(std::unique_ptr<DecoderPart> first,
                                    std::unique_ptr<PartsBehind> behind) {
  return std::make_unique<PartsDecoder>(std::move(first), std::move(behind));
}

}  // namespace gpunode::model
