// JobSpec to and from its manifest bytes (schemas/manifest.fbs).
#include <algorithm>

#include "runtime/base/aligned_copy.hpp"
#include "runtime/base/wire_vector.hpp"
#include "runtime/job/job_spec.hpp"
#include "runtime/storage/strong_digest.hpp"
#include "schemas/manifest_generated.h"

namespace gpunode::job {

namespace wire = gpunode::wire::manifest;
std::vector<std::pair<std::string, std::string>> settings_of(const JobSpec& spec);

namespace {

constexpr std::uint32_t kFormat = 1;
constexpr std::size_t kMaxManifestBytes = 256 * 1024;
constexpr std::size_t kMaxSettings = 256;

std::span<const std::uint8_t> octets(ByteView bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

ByteView view(const flatbuffers::Vector<std::uint8_t>* bytes) {
  if (!bytes) return {};
  return {reinterpret_cast<const std::byte*>(bytes->data()), bytes->size()};
}

std::string text(const flatbuffers::String* value) {
  return value ? value->str() : "";
}

template <class Settings>
auto write_settings(flatbuffers::FlatBufferBuilder& builder, const Settings& settings) {
  std::vector<flatbuffers::Offset<wire::Setting>> offsets;
  for (const auto& [key, value] : settings)
    offsets.push_back(
        wire::CreateSetting(builder, builder.CreateString(key), builder.CreateString(value)));
  return builder.CreateVector(offsets);
}

}  // namespace

Bytes encode(const JobSpec& spec) {
  flatbuffers::FlatBufferBuilder builder(2048);
  auto settings = write_settings(builder, settings_of(spec));
  auto model = write_settings(builder, spec.model_settings);
  auto labels = builder.CreateVectorOfStrings(spec.labels);
  auto data = octets(spec.data_digest);
  auto digest = builder.CreateVector(data.data(), data.size());
  std::vector<std::uint8_t> nodes;
  for (const NodeId& node : spec.candidates)
    for (std::byte b : node.value) nodes.push_back(std::to_integer<std::uint8_t>(b));
  auto candidates = builder.CreateVector(nodes);
  auto fingerprint = builder.CreateString(spec.fingerprint);
  auto print_text = builder.CreateString(spec.fingerprint_text);
  auto version = builder.CreateString(spec.version);
  auto model_digest = builder.CreateString(spec.model_digest);
  auto by = octets(spec.submitter.value);
  auto submitter = builder.CreateVector(by.data(), by.size());
  auto waited_as = builder.CreateString(spec.waited_as);
  auto signed_by = octets(spec.owner_signature);
  auto signature = builder.CreateVector(signed_by.data(), signed_by.size());
  builder.Finish(
      wire::CreateManifest(builder, kFormat, settings, model, labels, digest, spec.data_bytes,
                           candidates, fingerprint, spec.sample_count, print_text, version,
                           model_digest, spec.submitted, submitter, waited_as, signature),
      wire::ManifestIdentifier());
  return finished_bytes(builder);
}

Result<JobSpec> decode(ByteView manifest) {
  auto corrupted = [](const char* what) {
    return Error{ErrorCode::corrupted, std::string("job manifest: ") + what};
  };
  if (manifest.size() > kMaxManifestBytes || manifest.size() < 16) return corrupted("wrong size");
  AlignedCopy copy(manifest);
  flatbuffers::Verifier verifier(copy.data(), copy.size(), 8, 1024);
  if (!wire::VerifyManifestBuffer(verifier)) return corrupted("not a manifest");
  const wire::Manifest* table = wire::GetManifest(copy.data());
  if (table->format() != kFormat)
    return Error{ErrorCode::protocol_mismatch,
                 "job manifest of format " + std::to_string(table->format()) +
                     ": this build reads " + std::to_string(kFormat) + "; update the older node"};
  if (table->settings()->size() > kMaxSettings || table->model_settings()->size() > kMaxSettings)
    return corrupted("too many settings");
  JobSpec spec;
  for (const wire::Setting* setting : *table->settings())
    if (auto done = set(spec, setting->key()->str(), setting->value()->str()); !done)
      return done.error().within("job manifest");
  WireBudget budget(manifest.size());
  for (const wire::Setting* setting : *table->model_settings()) {
    if (!budget.take(setting->key()->size() + setting->value()->size()))
      return corrupted("settings that lie in one another");
    spec.model_settings[setting->key()->str()] = setting->value()->str();
  }
  if (table->labels())
    for (const auto* label : *table->labels()) {
      if (!budget.take(label->size() + sizeof(flatbuffers::uoffset_t)))
        return corrupted("labels that lie in one another");
      spec.labels.push_back(label->str());
    }
  spec.data_digest = to_bytes(view(table->data_digest()));
  spec.data_bytes = table->data_bytes();
  spec.sample_count = table->sample_count();
  ByteView nodes = view(table->candidates());
  if (nodes.size() % 32 != 0) return corrupted("candidates");
  for (std::size_t at = 0; at < nodes.size(); at += 32)
    spec.candidates.push_back(*NodeId::from(nodes.subspan(at, 32)));
  spec.fingerprint = text(table->fingerprint());
  spec.fingerprint_text = text(table->fingerprint_text());
  spec.version = text(table->version());
  spec.model_digest = text(table->model_digest());
  spec.submitted = table->submitted();
  spec.submitter = NodeId::from(view(table->submitter())).value_or(NodeId{});
  spec.waited_as = text(table->waited_as());
  spec.owner_signature = to_bytes(view(table->owner_signature()));
  if (auto valid = validate(spec); !valid) return valid.error().within("job manifest");
  return spec;
}

Bytes owned_bytes(const JobSpec& spec) {
  JobSpec wished = spec;
  wished.data_digest.clear();
  wished.data_bytes = wished.sample_count = 0;
  wished.candidates.clear();
  wished.fingerprint.clear();
  wished.fingerprint_text.clear();
  wished.version.clear();
  wished.model_digest.clear();
  wished.waited_as.clear();
  wished.owner_signature.clear();
  return encode(wished);
}

JobId job_id(ByteView manifest) {
  return storage::strong_digest_of(manifest);
}

}  // namespace gpunode::job
