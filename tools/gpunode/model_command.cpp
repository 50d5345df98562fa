// `model import` and `model export`: models of Hugging Face's transformers, of timm and of torchvision
// to a file that jobs start from and nodes serve, and back. Straight on files, with or without a node.
#include <charconv>
#include <filesystem>

#include "actors/checkpoint/stored_model.hpp"
#include "runtime/storage/posix_file_system.hpp"
#include "tools/gpunode/answer.hpp"
#include "tools/gpunode/commands.hpp"
#include "tools/gpunode/output_file.hpp"
#include "tools/gpunode/text.hpp"

namespace gpunode::cli {
namespace {

using checkpoint::StoredModel;
using nlohmann::json;
using std::filesystem::path;

constexpr std::uint64_t kLongestContext = 1 << 24;

path absolute_path(const std::string& given) {
  return std::filesystem::absolute(given).lexically_normal();
}

// What a person wants to know of it, and the section of a job file that describes it.
std::string text_of(const json& answer, bool for_jobs) {
  std::string text = aligned({{"path", word(answer, "path")},
                              {"bytes", number(answer, "bytes")},
                              {"sha256", word(answer, "sha256")},
                              {"model", word(answer, "name")},
                              {"parameters", number(answer, "parameters")}});
  if (!for_jobs) return text;
  text += "\nA job that goes on from it has in its file:\n\n[model]\nkind = \"" +
          word(answer, "kind") + "\"\nstart = \"" + word(answer, "path") + "\"\n";
  const json settings = object(answer, "settings");
  for (const auto& [key, value] : settings.items())
    text += key + " = " + value.get<std::string>() + "\n";
  return text;
}

int show(const Invocation& invocation, const StoredModel& stored, const path& out,
         const snapshot::Export& written, bool for_jobs) {
  const json answer = {{"path", out.string()},
                       {"bytes", written.size_bytes},
                       {"sha256", written.sha256.text()},
                       {"kind", stored.model->kind()},
                       {"name", stored.model->name()},
                       {"settings", stored.model->config()},
                       {"parameters", stored.model->parameter_count()}};
  return tell(invocation, {answer, std::nullopt, kOk},
              [&](const json& told) { return text_of(told, for_jobs); });
}

// "224" or "224x160"; nothing said leaves it open.
Result<model::ImageSize> image_of(const Invocation& invocation) {
  const std::string text = invocation.arguments.text("--image");
  if (text.empty()) return model::ImageSize{};
  const auto number = [](std::string_view digits) {
    std::int64_t value = 0;
    const char* end = digits.data() + digits.size();
    const auto [stopped, error] = std::from_chars(digits.data(), end, value);
    return error == std::errc() && stopped == end ? value : 0;
  };
  const std::size_t cross = text.find('x');
  const std::string_view height = std::string_view(text).substr(0, cross);
  const std::string_view width =
      cross == std::string::npos ? height : std::string_view(text).substr(cross + 1);
  const model::ImageSize size{number(height), number(width)};
  if (size.height > 0 && size.width > 0) return size;
  return {ErrorCode::invalid_argument, "--image: " + text + " is neither 224 nor 224x160"};
}

// Reads the operand's model, writes it by `save` to where `place` says. The exit code.
template <class Place, class Save>
int convert(const Invocation& invocation, bool for_jobs, Place place, Save save) {
  const std::string from = invocation.arguments.text("PATH");
  const std::string out = invocation.arguments.text("--out");
  if (out.empty())
    return fail(invocation, {ErrorCode::invalid_argument, "--out is missing"}, kUsage);
  const auto target = place(invocation, out);
  if (!target) return fail(invocation, target.error());
  const auto context = invocation.arguments.whole("--context", 0, 1, kLongestContext);
  if (!context) return fail(invocation, context.error(), kUsage);
  const auto image = image_of(invocation);
  if (!image) return fail(invocation, image.error(), kUsage);
  storage::PosixFileSystem files;
  std::error_code unreadable;
  const path source = std::filesystem::canonical(absolute_path(from), unreadable);
  const auto stored = checkpoint::load_stored_model(
      files, unreadable ? absolute_path(from) : source,
      {.context = static_cast<std::int64_t>(*context), .image = *image});
  if (!stored) return fail(invocation, stored.error());
  const auto written = save(files, *stored, *target);
  if (!written) return fail(invocation, written.error());
  return show(invocation, *stored, *target, *written, for_jobs);
}

}  // namespace

int run_model_import(const Invocation& invocation) {
  return convert(invocation, true, output_file, checkpoint::save_model);
}

int run_model_export(const Invocation& invocation) {
  return convert(invocation, false, output_folder, checkpoint::save_for_transformers);
}

}  // namespace gpunode::cli
