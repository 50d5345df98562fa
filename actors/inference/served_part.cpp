#include "actors/inference/served_part.hpp"

#include <algorithm>
#include <cmath>

#include "actors/inference/detail/device_weights.hpp"
#include "actors/inference/text_engine.hpp"
#include "kernels/model/model_code.hpp"
#include "runtime/base/rng.hpp"

namespace gpunode::inference {
namespace {

// Heads that may have it open at one time, of one node those that it has while a model gets a new version;
// one that has not asked for so long makes room for others, and in the end without them.
constexpr std::size_t kMostLives = 4, kMostLivesOfNode = 2;
constexpr auto kForgottenAfter = std::chrono::minutes(1), kUnusedFor = std::chrono::minutes(10);

Error refused(std::string text) {
  return {ErrorCode::invalid_argument, std::move(text)};
}

}  // namespace

Result<std::unique_ptr<ServedPart>> ServedPart::load(const ServedModel::Options& options) {
  return model::guarded("the model", [&]() -> Result<std::unique_ptr<ServedPart>> {
    tensor::Buffer weights;
    auto image =
        checkpoint::load_weight_image(*options.files, options.path,
                                      {.format = options.weights,
                                       .room = [&](std::size_t bytes) -> Result<MutableByteView> {
                                         auto taken = host_room(*options.device, bytes);
                                         if (!taken) return taken.error();
                                         weights = *std::move(taken);
                                         return bytes_in(weights, bytes);
                                       },
                                       .part = options.part});
    if (!image) return image.error();
    std::unique_ptr<ServedPart> served(new ServedPart(options));
    served->image_ = *std::move(image);
    const storage::Sha256 digest = served->image_.content->digest();
    served->name_ = {digest, static_cast<std::uint32_t>(options.part->number),
                     static_cast<std::uint32_t>(options.part->of)};
    served->facts_ = {.digest = digest.text(),
                      .step = served->image_.content->step,
                      .description = served->image_.model->name(),
                      .weights = std::string(to_string(served->is().layout.format))};
    if (auto placed = served->use_.run([&] { return served->place(std::move(weights)); }); !placed)
      return placed.error();
    if (auto done = served->use_.run([&] { return served->probe(); }); !done)
      return done.error().within("probe of the loaded part");
    return served;
  });
}

Result<void> ServedPart::place(tensor::Buffer image) {
  auto program = model::make_program(*image_.model, use_.device().backend(), 1);
  if (!program) return program.error();
  program_ = std::move(*program);
  auto placed = on_device(use_.device(), std::move(image), is().layout.bytes);
  if (!placed) return placed.error();
  weights_ = *std::move(placed);
  return {};
}

Result<std::unique_ptr<model::DecoderPart>> ServedPart::decoder(
    const model::DecoderExtents& extents) {
  return program_->part(is(), {weights_->as<const std::byte>(), is().layout.bytes},
                        {.texts = extents.texts,
                         .rows = extents.rows,
                         .pages = extents.pages,
                         .independent_rows = independent_rows_});
}

Result<void> ServedPart::probe() {
  auto one = program_->part(is(), {weights_->as<const std::byte>(), is().layout.bytes},
                            {.texts = 1, .rows = 1});
  if (!one) return one.error();
  pages_of_text_ = (*one)->pages_of_text();
  model::PassRows rows{.tokens = {}, .positions = {0}, .texts = {0}, .pages = {}, .chosen = {0}};
  rows.pages.assign((*one)->extents().pages, 0);
  const std::vector<float> in(is().takes);
  std::vector<float> out(is().is_last() ? (*one)->vocabulary() : is().gives);
  if (auto done = (*one)->run(rows, in, out); !done) return done;
  if (std::ranges::all_of(out, [](float value) { return std::isfinite(value); })) return {};
  return {ErrorCode::internal, "its numbers are not finite: its training has gone wrong"};
}

Result<PartMessage> ServedPart::answer(const PartMessage& asked, const NodeId& from) {
  return use_.run([&] {
    return model::guarded("the model", [&]() -> Result<PartMessage> {
      if (const auto* order = std::get_if<PartOpen>(&asked)) return open(*order, from);
      if (const auto* order = std::get_if<PartClose>(&asked)) return close(*order, from);
      if (const auto* order = std::get_if<PartPass>(&asked)) return pass(*order, from);
      return refused("not a question");
    });
  });
}

// What ServedModel::decoder_in_parts() asks for of the same model, or less.
Result<void> ServedPart::check_extents(const model::DecoderExtents& asked) const {
  const auto fit = [](std::size_t rows, std::size_t numbers) {
    return numbers == 0 || rows <= kMostPartNumbers / numbers;
  };
  const std::size_t vocabulary = image_.model->vocabulary();
  // Those of one text at least, whatever a page holds.
  const std::size_t pages = std::max<std::size_t>(
      pages_of_text_, TextEngine::kCacheBytes / std::max<std::uint64_t>(is().page_bytes, 1));
  if (asked.texts >= 1 && asked.texts <= asked.rows && asked.rows <= TextEngine::kMostRows &&
      fit(asked.rows, is().takes) && fit(asked.rows, is().gives) &&
      (!is().is_last() || fit(asked.texts, vocabulary)) && asked.pages >= 1 && asked.pages <= pages)
    return {};
  return refused("room for " + std::to_string(asked.texts) + " texts, " +
                 std::to_string(asked.rows) + " rows and " + std::to_string(asked.pages) +
                 " pages is more than a head needs, or none");
}

// Whether there is any: of the node's own heads the one that it used least lately makes room for its new
// one, and then one of another node that has more than one.
bool ServedPart::make_room_for(const NodeId& node) {
  const auto count_of = [&](const NodeId& one) {
    return static_cast<std::size_t>(std::ranges::count(lives_, one, &Life::node));
  };
  const auto least_used = [&](const auto& matches) {
    auto found = lives_.end();
    for (auto one = lives_.begin(); one != lives_.end(); ++one)
      if (matches(*one) && (found == lives_.end() || one->used < found->used)) found = one;
    return found;
  };
  auto victim = lives_.end();
  if (count_of(node) >= kMostLivesOfNode)
    victim = least_used([&](const Life& one) { return one.node == node; });
  else if (lives_.size() < kMostLives)
    return true;
  else if (forget_a_life())
    return true;
  else
    victim = least_used([&](const Life& one) { return count_of(one.node) > 1; });
  if (victim == lives_.end()) return false;
  lives_.erase(victim);
  return true;
}

void ServedPart::forget_unused() {
  const Time now = clock_->now();
  std::erase_if(lives_, [&](const Life& one) { return now - one.used >= kUnusedFor; });
}

// The one that was not used for longest, if that is long enough.
bool ServedPart::forget_a_life() {
  const auto oldest = std::ranges::min_element(lives_, {}, &Life::used);
  if (oldest == lives_.end() || clock_->now() - oldest->used < kForgottenAfter) return false;
  lives_.erase(oldest);
  return true;
}

Result<PartMessage> ServedPart::open(const PartOpen& order, const NodeId& from) {
  if (order.first_stage != is().first_stage || order.end_stage != is().end_stage)
    return Error{ErrorCode::unsupported,
                 "the head means stages " + std::to_string(order.first_stage) + " to " +
                     std::to_string(order.end_stage) + " by this part, and here it has " +
                     std::to_string(is().first_stage) + " to " + std::to_string(is().end_stage) +
                     ": run the same gpunode on both nodes"};
  if (auto good = check_extents(order.extents); !good) return good.error();
  // Its room first: the head has no use for it any more.
  std::erase_if(lives_,
                [&](const Life& one) { return one.node == from && one.head == order.head; });
  if (!make_room_for(from))
    return Error{ErrorCode::resource_exhausted,
                 std::to_string(kMostLives) +
                     " heads use this part already, as many as may: serve it on more nodes"};
  auto made = decoder(order.extents);
  while (!made && made.error().code == ErrorCode::out_of_memory && forget_a_life())
    made = decoder(order.extents);
  if (!made) return made.error();
  const Time now = clock_->now();
  const std::uint64_t number =
      mix(static_cast<std::uint64_t>(now.time_since_epoch().count()), ++opened_);
  WrittenRows written(**made);
  lives_.push_back({number, from, order.head, now, *std::move(made), std::move(written)});
  return PartMessage(PartOpened{number});
}

std::vector<ServedPart::Life>::iterator ServedPart::find(std::uint64_t life, const NodeId& of) {
  return std::ranges::find_if(
      lives_, [&](const Life& one) { return one.number == life && one.node == of; });
}

Result<PartMessage> ServedPart::close(const PartClose& order, const NodeId& from) {
  if (const auto life = find(order.life, from); life != lives_.end()) lives_.erase(life);
  return PartMessage(order);
}

Result<PartMessage> ServedPart::pass(const PartPass& order, const NodeId& from) {
  const auto life = find(order.life, from);
  if (life == lives_.end())
    return Error{ErrorCode::wrong_state, "the part was opened anew, or never by this head"};
  life->used = clock_->now();
  // Before any number is multiplied.
  const model::DecoderExtents extents = life->decoder->extents();
  const std::size_t rows = order.rows.positions.size(), chosen = order.rows.chosen.size();
  if (rows > extents.rows || chosen > extents.texts)
    return refused("a pass of " + std::to_string(rows) + " rows, " + std::to_string(chosen) +
                   " of them to be scored, is more than was asked for");
  if (order.values.size() != rows * is().takes || chosen > rows)
    return refused(std::to_string(order.values.size()) + " numbers and " + std::to_string(chosen) +
                   " rows to be scored, of " + std::to_string(rows) + " rows");
  PartValues made;
  made.values.resize(is().is_last() ? chosen * life->decoder->vocabulary() : rows * is().gives);
  if (auto good = model::check_rows(*life->decoder, order.rows, order.values, made.values.size());
      !good)
    return good.error();
  if (!life->written.add(order.rows))
    return refused("a row follows on positions that its head has not written");
  const auto done = model::guarded(
      "the model", [&] { return life->decoder->run(order.rows, order.values, made.values); });
  if (!done) {
    life->written.undo();
    return done.error();
  }
  return PartMessage(std::move(made));
}

}  // namespace gpunode::inference
