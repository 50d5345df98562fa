#include "actors/checkpoint/weight_image.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "actors/checkpoint/detail/hub_text.hpp"
#include "kernels/model/registry.hpp"
#include "runtime/snapshot/safetensors_file.hpp"

namespace gpunode::checkpoint {
namespace {

using model::WeightLayout;
using ops::WeightFormat;
using snapshot::ElementType;
using snapshot::SafetensorsFile;
using snapshot::TensorEntry;
using storage::Path;

constexpr const char* kPacked = "packed.safetensors";
constexpr const char* kWeightsKey = "weights";
constexpr const char* kDigestKey = "digest";  // of the image, as its content says it
constexpr const char* kStepKey = "step";

// How a parameter of this place stands in a file.
TensorEntry entry_of(const model::ParameterSpec& parameter, const WeightLayout::Place& place) {
  TensorEntry entry{parameter.name, ElementType::f32, {}, 0, 0};
  entry.shape.assign(parameter.shape.begin(), parameter.shape.end());
  if (place.format == WeightFormat::bf16) entry.type = ElementType::bf16;
  if (!ops::is_quantised(place.format)) return entry;
  entry.type = ElementType::u8;
  entry.shape.back() = ops::weight_row_bytes(place.format, place.inner);
  return entry;
}

std::string text_at(const SafetensorsFile& file, const char* key) {
  const auto& metadata = file.header().metadata;
  const auto found = metadata.find(key);
  return found == metadata.end() ? std::string() : found->second;
}

Error bad(const SafetensorsFile& file, const std::string& what) {
  return {ErrorCode::corrupted, file.path().string() + ": " + what +
                                    ": quantise the model again, or fetch the file again"};
}

// Where a model's weights go while they are read, in their order: into an image of all of them, or of one
// part, whose other parameters are but looked at.
class Target {
 public:
  // Fails with: what Model::weight_layout(), Model::parts() and the room fail with.
  static Result<Target> open(const model::Model& model, WeightFormat format,
                             const ImageOptions& options) {
    auto layout = model.weight_layout(format);
    if (!layout) return layout.error();
    Target target(*std::move(layout));
    if (options.part) {
      auto parts = model.parts(format, options.part->of);
      if (!parts) return parts.error();
      if (options.part->number >= parts->size())
        return Error{ErrorCode::invalid_argument,
                     model.name() + " has " + std::to_string(parts->size()) + " parts"};
      target.part_ = std::move(parts->at(options.part->number));
    }
    const auto room = options.room(target.layout().bytes);
    if (!room) return room.error();
    target.image_ = *room;
    std::ranges::fill(target.image_, std::byte{0});
    return target;
  }

  const WeightLayout& whole() const { return whole_; }
  const WeightLayout& layout() const { return part_ ? part_->layout : whole_; }
  // Where the parameter is to be put; valid until the next is asked for.
  MutableByteView place_of(std::size_t parameter) {
    const WeightLayout::Place& place = layout().places[parameter];
    if (place.bytes > 0) return image_.subspan(place.first, place.bytes);
    elsewhere_.resize(whole_.places[parameter].bytes);
    return elsewhere_;
  }
  // It is there.
  void on_placed(std::size_t parameter, ByteView bytes) {
    if (part_) pieces_.add(whole_.places[parameter].first, bytes);
  }
  void describe(ModelContent& content, const std::vector<TextFile>& texts) {
    if (part_)
      describe_pieces(content, texts, whole_.bytes, pieces_.finish(whole_.bytes));
    else
      describe_bytes(content, texts, image_);
  }
  std::optional<model::ModelPart> part() const { return part_; }

 private:
  explicit Target(WeightLayout whole) : whole_(std::move(whole)) {}

  WeightLayout whole_;
  std::optional<model::ModelPart> part_;
  MutableByteView image_;
  Bytes elsewhere_;
  ImagePieces pieces_;
};

// Fills the image from the file's tensors; gaps are zeros.
Result<void> read_tensors(const SafetensorsFile& file, const model::Model& model, Target& target) {
  const WeightLayout& layout = target.whole();
  if (file.header().tensors.size() != layout.places.size())
    return bad(file, "it has " + std::to_string(file.header().tensors.size()) + " tensors, " +
                         model.name() + " has " + std::to_string(layout.places.size()));
  for (std::size_t at = 0; at < layout.places.size(); ++at) {
    const WeightLayout::Place& place = layout.places[at];
    const TensorEntry wanted = entry_of(model.parameters()[at], place);
    const TensorEntry* found = file.header().find(wanted.name);
    if (!found || found->shape != wanted.shape || found->type != wanted.type)
      return bad(file, wanted.name +
                           (found ? " has another shape or type than " : " is missing of ") +
                           model.name());
    const MutableByteView bytes = target.place_of(at);
    if (auto read = file.read_bytes(*found, bytes); !read) return read;
    target.on_placed(at, bytes);
  }
  return {};
}

// With its weights in their place.
Result<WeightImage> finished(std::unique_ptr<model::Model> model, Target& target,
                             std::uint64_t step, std::vector<TextFile> texts) {
  auto text = detail::text_form_of(texts);
  if (!text) return text.error();
  auto content = std::make_shared<ModelContent>();
  content->kind = model->kind();
  content->settings = model->config();
  content->format = target.layout().format;
  content->step = step;
  target.describe(*content, texts);
  return WeightImage{
      std::move(model),   target.layout(),
      std::move(content), std::make_shared<const std::vector<TextFile>>(std::move(texts)),
      *std::move(text),   target.part()};
}

Result<WeightImage> load_packed(const storage::FileSystem& files, const Path& folder,
                                const ImageOptions& options) {
  auto file = SafetensorsFile::open(files, folder / kPacked);
  if (!file) return file.error();
  const auto description = snapshot::described_in(*file);
  if (!description) return description.error();
  const auto format = ops::weight_format_of(text_at(*file, kWeightsKey));
  if (!format) return bad(*file, format.error().message());
  if (options.format && *options.format != *format)
    return Error{ErrorCode::invalid_argument,
                 folder.string() + " holds the model in " + std::string(to_string(*format)) +
                     ": leave the format out, or take the model that it was made of"};
  auto made = model::make_model(description->kind, description->settings);
  if (!made) return made.error().within(file->path().string());
  auto layout = (*made)->weight_layout(*format);
  if (!layout) return layout.error();
  std::uint64_t stored = 0;  // a description may ask for any amount
  for (const TensorEntry& tensor : file->header().tensors) stored += tensor.end - tensor.begin;
  if (layout->bytes > stored + 64 * layout->places.size())
    return bad(*file, "it has " + std::to_string(stored) + " bytes of weights, " + (*made)->name() +
                          " has " + std::to_string(layout->bytes));
  auto target = Target::open(**made, *format, options);
  if (!target) return target.error();
  if (auto read = read_tensors(*file, **made, *target); !read) return read.error();
  auto texts = detail::read_texts(files, folder);
  if (!texts) return texts.error();
  auto image =
      finished(std::move(*made), *target,
               std::strtoull(text_at(*file, kStepKey).c_str(), nullptr, 10), *std::move(texts));
  if (!image) return image.error().within(folder.string());
  if (image->content->image_digest().text() != text_at(*file, kDigestKey))
    return bad(*file, "its bytes have not the digest that it names");
  return image;
}

}  // namespace

Result<WeightImage> load_weight_image(const storage::FileSystem& files, const Path& path,
                                      const ImageOptions& options) {
  if (files.exists(path / kPacked)) return load_packed(files, path, options);
  auto opened = open_stored_model(files, path, options.load);
  if (!opened) return opened.error();
  auto target = Target::open(*opened->model, options.format.value_or(WeightFormat::fp32), options);
  if (!target) return target.error();
  auto read = opened->read([&](std::size_t at, std::span<const float> values) -> Result<void> {
    const WeightLayout::Place& place = target->whole().places[at];
    const MutableByteView bytes = target->place_of(at);
    if (auto packed = ops::pack_weights(place.format, values, place.inner, bytes); !packed)
      return packed.error().within(opened->model->parameters()[at].name);
    target->on_placed(at, bytes);
    if (options.on_packed) options.on_packed(values, place, bytes);
    return {};
  });
  if (!read) return read.error();
  auto image = finished(std::move(opened->model), *target, opened->step, std::move(opened->texts));
  if (!image) return image.error().within(path.string());
  return image;
}

Result<WeightImage> image_of(std::shared_ptr<const ModelContent> content,
                             std::vector<TextFile> texts) {
  auto model = model::make_model(content->kind, content->settings);
  if (!model) return model.error();
  auto layout = (*model)->weight_layout(content->format);
  if (!layout) return layout.error();
  if (layout->bytes != content->image_bytes)
    return Error{ErrorCode::corrupted, "the image of " + (*model)->name() + " has " +
                                           std::to_string(content->image_bytes) +
                                           " bytes, and the model takes " +
                                           std::to_string(layout->bytes)};
  for (const TextFile& one : texts)
    if (!detail::is_text_name(one.name))
      return Error{ErrorCode::corrupted, "a model's folder has no file '" + one.name + "'"};
  auto text = detail::text_form_of(texts);
  if (!text) return text.error();
  return WeightImage{*std::move(model), *std::move(layout), std::move(content),
                     std::make_shared<const std::vector<TextFile>>(std::move(texts)),
                     *std::move(text)};
}

Result<snapshot::Export> save_weight_image(storage::FileSystem& files, const WeightImage& image,
                                           ByteView bytes, const Path& folder) {
  if (files.exists(folder))
    return Error{ErrorCode::already_exists,
                 folder.string() + " is there already: name a new folder, or remove it"};
  if (auto done = files.create_folder(folder); !done) return done.error();
  if (auto done = detail::write_texts(files, *image.texts, folder); !done) return done.error();
  std::vector<TensorEntry> entries;
  std::map<std::string_view, ByteView> values;
  const auto& parameters = image.model->parameters();
  for (std::size_t at = 0; at < parameters.size(); ++at) {
    const WeightLayout::Place& place = image.layout.places[at];
    entries.push_back(entry_of(parameters[at], place));
    values[parameters[at].name] = bytes.subspan(place.first, place.bytes);
  }
  auto metadata = snapshot::metadata_of({image.model->kind(), image.model->config()});
  metadata[kWeightsKey] = to_string(image.layout.format);
  metadata[kDigestKey] = image.content->image_digest().text();
  metadata[kStepKey] = std::to_string(image.content->step);
  const auto header = snapshot::plan_safetensors(std::move(entries), std::move(metadata));
  return snapshot::write_safetensors(
      files, header, folder / kPacked,
      [&](const TensorEntry& entry, const auto& sink) { return sink(values.at(entry.name)); });
}

}  // namespace gpunode::checkpoint
