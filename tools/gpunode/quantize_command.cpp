// `quantize`: a model with smaller weights, as a folder that `serve` loads as it lies. Straight on files.
#include <cmath>
#include <filesystem>

#include "actors/checkpoint/weight_image.hpp"
#include "runtime/storage/posix_file_system.hpp"
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/output_file.hpp"
#include "tools/gpunode/text.hpp"

namespace gpunode::cli {
namespace {

using checkpoint::WeightImage;
using model::WeightLayout;
using nlohmann::json;

constexpr std::uint64_t kLongestContext = 1 << 24;

// How far the weights that were packed are from what they were, as squares.
struct Distance {
  double weights = 0, differences = 0;
  std::size_t count = 0;

  void add(std::span<const float> was, const WeightLayout::Place& place, ByteView is) {
    if (place.format == ops::WeightFormat::fp32) return;
    const auto inner = static_cast<std::size_t>(place.inner);
    const std::size_t row_bytes = ops::weight_row_bytes(place.format, place.inner);
    std::vector<float> row(inner);
    for (std::size_t at = 0; at < was.size(); at += inner, is = is.subspan(row_bytes)) {
      ops::unpack_weights(place.format, is.first(row_bytes), row);
      for (std::size_t i = 0; i < inner; ++i) {
        const double difference = double{row[i]} - double{was[at + i]};
        weights += double{was[at + i]} * double{was[at + i]};
        differences += difference * difference;
      }
    }
    count += was.size();
  }
  double relative() const { return weights == 0 ? 0 : std::sqrt(differences / weights); }
};

std::string text_of(const json& answer) {
  return aligned({{"path", word(answer, "path")},
                  {"model", word(answer, "name")},
                  {"weights", word(answer, "weights")},
                  {"parameters", number(answer, "parameters")},
                  {"in that format", number(answer, "packed")},
                  {"bytes", number(answer, "bytes")},
                  {"bits a parameter", decimal(field<double>(answer, "bits", 0), 2)},
                  {"off by",
                   decimal(field<double>(answer, "percent_off", 0), 2) + " % (root of squares)"},
                  {"sha256", word(answer, "sha256")}}) +
         "\n`gpunode serve " + word(answer, "path") + "` serves it\n";
}

}  // namespace

int run_quantize(const Invocation& invocation) {
  const std::string out = invocation.arguments.text("--out");
  if (out.empty())
    return fail(invocation, {ErrorCode::invalid_argument, "--out is missing"}, kUsage);
  const std::string asked = invocation.arguments.text("--weights");
  const auto format = ops::weight_format_of(asked.empty() ? "int8" : asked);
  if (!format) return fail(invocation, format.error(), kUsage);
  const auto context = invocation.arguments.whole("--context", 0, 1, kLongestContext);
  if (!context) return fail(invocation, context.error(), kUsage);
  const auto folder = output_folder(invocation, out);
  if (!folder) return fail(invocation, folder.error());
  storage::PosixFileSystem files;
  if (files.exists(*folder))
    return fail(invocation, {ErrorCode::already_exists,
                             folder->string() + " is there already: name a new folder"});
  const storage::Path source =
      std::filesystem::absolute(invocation.arguments.text("PATH")).lexically_normal();
  Bytes bytes;
  Distance distance;
  const auto image = checkpoint::load_weight_image(
      files, source,
      {.format = *format,
       .room = [&](std::size_t count) -> Result<MutableByteView> {
         bytes.resize(count);
         return MutableByteView(bytes);
       },
       .on_packed = [&](std::span<const float> was, const WeightLayout::Place& place,
                        ByteView is) { distance.add(was, place, is); },
       .load = {.context = static_cast<std::int64_t>(*context)}});
  if (!image) return fail(invocation, image.error());
  const auto written = checkpoint::save_weight_image(files, *image, bytes, *folder);
  if (!written) return fail(invocation, written.error());
  const auto parameters = static_cast<double>(image->model->parameter_count());
  const json answer = {{"path", folder->string()},
                       {"bytes", written->size_bytes},
                       {"sha256", written->sha256.text()},
                       {"digest", image->content->digest().text()},
                       {"kind", image->model->kind()},
                       {"name", image->model->name()},
                       {"weights", to_string(*format)},
                       {"parameters", image->model->parameter_count()},
                       {"packed", distance.count},
                       {"bits", 8 * static_cast<double>(bytes.size()) / parameters},
                       {"percent_off", 100 * distance.relative()}};
  return tell(invocation, {answer, std::nullopt, kOk}, text_of);
}

}  // namespace gpunode::cli
