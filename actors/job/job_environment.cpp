#include "actors/job/job_environment.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "actors/checkpoint/stored_model.hpp"
#include "actors/compute/wire_forms.hpp"
#include "actors/job/job_fitness.hpp"
#include "actors/job/job_rights.hpp"
#include "actors/json_answer.hpp"
#include "kernels/model/model_code.hpp"
#include "kernels/model/registry.hpp"
#include "kernels/model/started_model.hpp"
#include "runtime/dataset/split_dataset.hpp"
#include "runtime/dataset/table_dataset.hpp"
#include "runtime/dataset/text_dataset.hpp"
#include "runtime/probe/host_probe.hpp"

namespace gpunode::jobs {
namespace {

std::string gigabytes(std::uint64_t bytes) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.2f GB", static_cast<double>(bytes) / 1e9);
  return buffer;
}

// Model code is the embedder's: it may throw wherever it is called.
template <class Call>
auto guarded(const job::JobSpec& spec, Call call) {
  return model::guarded("model '" + spec.model_kind + "'", call);
}

void measure_data(const ingest::SliceReader& reader, Fitness& fitness) {
  const storage::Sha256 digest = reader.data().data_digest();
  fitness.data_digest.assign(digest.value.begin(), digest.value.end());
  fitness.data_bytes = reader.data().size_bytes();
  fitness.sample_count = reader.data().sample_count();
}

// Settings that say how a model reads samples and not what its weights mean.
constexpr std::array kOfReading{"context", "mask", "mask_seed", "padding", "opening", "separator"};

dataset::NamedFiles data_of(const job::JobSpec& spec) {
  return {"data.path", spec.data.path, "data.set", spec.data.set};
}
dataset::NamedFiles validation_of(const job::JobSpec& spec) {
  return {"data.validation_path", spec.data.validation_path, "data.validation_set",
          spec.data.validation_set};
}
dataset::NamedFiles start_of(const job::JobSpec& spec) {
  return {"model.start", spec.model_start, "model.start_set", spec.model_start_set};
}

std::string start_text(const job::JobSpec& spec) {
  return spec.model_start.empty() ? "start_set = " + spec.model_start_set
                                  : "start = " + spec.model_start;
}

// The job's settings, and those of the model that it starts from where it says nothing. Fails with:
// invalid_argument (it says something else).
Result<model::Settings> started_settings(const job::JobSpec& spec, const model::Model& start) {
  const auto differs = [&](const std::string& what, const std::string& found,
                           const std::string& wanted) {
    return Error{ErrorCode::invalid_argument, start_text(spec) + " has " + what + " = " + found +
                                                  ", the job says " + wanted +
                                                  ": leave it out of the job file"};
  };
  if (start.kind() != spec.model_kind)
    return Error{ErrorCode::invalid_argument, start_text(spec) + " is of kind " + start.kind() +
                                                  ", the job of kind " + spec.model_kind +
                                                  ": write kind = \"" + start.kind() + "\""};
  model::Settings settings = start.config();
  for (const auto& [key, value] : spec.model_settings) {
    const auto found = settings.find(key);
    const bool of_reading = std::ranges::find(kOfReading, key) != kOfReading.end();
    if (!of_reading && found != settings.end() && found->second != value)
      return differs(key, found->second, value);
    settings[key] = value;
  }
  return settings;
}

// A context that is not that of the start may change a table of positions.
Result<void> check_same_parameters(const model::Model& start, const model::Model& model) {
  const auto& had = start.parameters();
  const auto& wanted = model.parameters();
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (i >= had.size() || had[i].name != wanted[i].name || had[i].shape != wanted[i].shape)
      return {ErrorCode::invalid_argument,
              "[model] the start has another " + wanted[i].name +
                  ": leave out the settings that are not those of the start"};
  return {};
}

using SharedData = std::shared_ptr<const dataset::Dataset>;

// How wide the numbers are of which samples are windows.
std::uint32_t token_bytes_of(const job::DataSpec& spec) {
  return spec.format == "tokens" ? spec.token_bytes : 1;
}

// Of one of the job's data sets: which, the share that is held out of it, and whether its samples
// are to have no targets in common.
struct PartOfData {
  const dataset::OfferedFiles& place;
  double held_out = 0;
  bool disjoint = false;
};

// The data in its format, if its samples are what the model reads.
Result<SharedData> open_part(const job::DataSpec& spec, const model::Model& model,
                             const PartOfData& part) {
  auto opened = dataset::TextSource::open(part.place.files, part.place.path);
  if (!opened) return opened.error();
  auto source = std::make_shared<const dataset::TextSource>(std::move(*opened));
  const auto fields = model.sample_fields();
  const auto differs = [&](const std::string& has) {
    return Error{ErrorCode::invalid_argument,
                 model.name() + " reads samples of " + to_text(fields) + ", the data, " +
                     part.place.path.string() + ", has " + has +
                     ": choose the model's settings, the data or data.format so that they fit"};
  };
  if (spec.format == "table") {
    constexpr std::size_t kMost = std::numeric_limits<std::int32_t>::max();
    auto table = dataset::TableDataset::create(
        std::move(source), part.held_out,
        static_cast<std::int32_t>(model.vocabulary() > 1 ? std::min(model.vocabulary(), kMost)
                                                         : kMost));
    if (!table) return table.error();
    if ((*table)->fields() != fields) return differs(to_text((*table)->fields()));
    return SharedData(std::move(*table));
  }
  const std::uint32_t token_bytes = token_bytes_of(spec);
  const SampleField has = token_bytes == 1 ? SampleField{"text", SampleDtype::u8, 0}
                                           : SampleField{"tokens", SampleDtype::i32, 0};
  const bool reads_it = fields.size() == 1 && fields[0].name == has.name &&
                        fields[0].dtype == has.dtype && fields[0].count > 1;
  if (!reads_it) return differs(token_bytes == 1 ? "text u8" : "tokens i32");
  const std::uint32_t context = fields[0].count - 1;
  auto text = dataset::TextDataset::create(
      std::move(source), {.context = context,
                          .stride = part.disjoint ? context : 1,
                          .validation_fraction = part.held_out,
                          .token_bytes = token_bytes,
                          .vocabulary = static_cast<std::uint32_t>(model.vocabulary())});
  if (!text) return text.error();
  return SharedData(std::move(*text));
}

}  // namespace

Result<std::shared_ptr<const model::Model>> JobEnvironment::make_model(
    const job::JobSpec& spec) const {
  return guarded(spec, [&]() -> Result<std::shared_ptr<const model::Model>> {
    if (spec.has_start()) return started_model(spec);
    auto model = model::make_model(spec.model_kind, spec.model_settings);
    if (!model) return model.error().within("[model]");
    if (auto done = (*model)->use_precision(spec.train.precision); !done) return done.error();
    return std::shared_ptr<const model::Model>(std::move(*model));
  });
}

Result<std::shared_ptr<const model::Model>> JobEnvironment::started_model(
    const job::JobSpec& spec) const {
  const auto place = opened(spec, start_of(spec));
  if (!place) return place.error().within("[model] start");
  auto start = checkpoint::load_stored_model(*place->files, place->path);
  if (!start) return start.error().within("[model] start");
  const auto settings = started_settings(spec, *start->model);
  if (!settings) return settings.error().within("[model]");
  auto model = model::make_model(spec.model_kind, *settings);
  if (!model) return model.error().within("[model]");
  if (auto done = (*model)->use_precision(spec.train.precision); !done) return done.error();
  if (auto same = check_same_parameters(*start->model, **model); !same) return same.error();
  return std::shared_ptr<const model::Model>(
      std::make_shared<model::StartedModel>(std::move(*model), std::move(start->weights)));
}

// Weights and moments, the same of the next step, a snapshot of them for a checkpoint, two results,
// this member's partial sums at the worst (one a level of the tree), the slices under way, and what
// the program works with.
std::uint64_t JobEnvironment::memory_needed(const job::JobSpec& spec,
                                            const model::Model& model) const {
  std::uint64_t levels = 1;
  while ((1u << levels) < spec.train.slices) ++levels;
  double vectors = 3 + 3 + 2 + static_cast<double>(levels + 1);
  if (spec.exchange.mode == job::ExchangeMode::local)
    vectors += 10 + 6 * spec.exchange.rounds_ahead;  // a run, kept moments and changes; another run
  if (spec.exchange.mode != job::ExchangeMode::exact) vectors += 2;  // what is carried over
  const compute::SliceMemory slices = compute::slice_memory(model, spec.train, options_.threads,
                                                            compute::Trainer::kSliceBudgetBytes);
  const double needed = static_cast<double>(compute::Trainer::staged_bytes(
                            spec, model, compute::Trainer::kStageBudgetBytes)) +
                        vectors * 4.0 * static_cast<double>(model.parameter_count()) +
                        static_cast<double>(slices.activation_bytes + slices.gradient_bytes) +
                        static_cast<double>(model.working_bytes(
                            options_.threads, compute::samples_per_slice(spec.train)));
  return static_cast<std::uint64_t>(needed);
}

std::optional<std::uint64_t> JobEnvironment::memory_available() const {
  probe::ProcHostProbe host(options_.state);
  return host.sample(options_.clock->now()).memory_available_bytes;
}

Result<void> JobEnvironment::check_memory(const job::JobSpec& spec,
                                          const model::Model& model) const {
  const std::uint64_t needed = memory_needed(spec, model);
  const auto memory = probe::ProcHostProbe(options_.state).sample(options_.clock->now());
  if (const auto total = memory.memory_total_bytes; total && needed > *total)
    return {ErrorCode::invalid_argument,
            "the job is too large for this machine: it needs about " + gigabytes(needed) +
                ", the machine has " + gigabytes(*total) +
                "; use a smaller model, fewer samples a slice, or a larger machine"};
  if (const auto available = memory.memory_available_bytes; available && needed > *available)
    return {ErrorCode::out_of_memory,
            "the job is too large for this machine now: it needs about " + gigabytes(needed) +
                ", " + gigabytes(*available) +
                " are available; use a smaller model, fewer samples a slice, or more memory"};
  return {};
}

Result<ModelFigures> JobEnvironment::figures(const job::JobSpec& spec,
                                             const model::Model& model) const {
  return guarded(spec, [&]() -> Result<ModelFigures> {
    const auto forms = compute::wire_forms_of(options_.devices->host(), spec.exchange,
                                              compute::exact_end_of(model));
    if (!forms) return forms.error();
    const std::size_t count = model.parameter_count(), floats = count + model::kTailElements;
    constexpr std::size_t kState = 3;  // weights and two moments
    return ModelFigures{model.name(), count, model.tokens_per_sample(),
                        *forms ? (*forms)->partial.bytes(floats) : floats * sizeof(float),
                        kState * count * sizeof(float)};
  });
}

namespace {

dataset::JobOwner owner_of(const JobEnvironment::Options& options, const job::JobSpec& spec) {
  return {spec.submitter, options.authority && is_own(*options.authority, spec)};
}

}  // namespace

Result<void> JobEnvironment::check_offered(const job::JobSpec& spec) const {
  const dataset::JobOwner owner = owner_of(options_, spec);
  std::vector<dataset::NamedFiles> all = {data_of(spec)};
  if (spec.data.has_validation()) all.push_back(validation_of(spec));
  if (spec.has_start()) all.push_back(start_of(spec));
  for (const dataset::NamedFiles& named : all)
    if (auto offered = offers_.check(named, owner); !offered) return offered;
  return {};
}

Result<dataset::OfferedFiles> JobEnvironment::opened(const job::JobSpec& spec,
                                                     const dataset::NamedFiles& named) const {
  return offers_.open(named, owner_of(options_, spec));
}

Result<ingest::SliceReader> JobEnvironment::reader(const job::JobSpec& spec,
                                                   const model::Model& model) const {
  const auto place = opened(spec, data_of(spec));
  if (!place) return place.error();
  auto data = open_part(spec.data, model, {*place, spec.data.held_out_fraction()});
  if (!data) return data.error();
  if (spec.data.has_validation()) {
    const dataset::NamedFiles named = validation_of(spec);
    const auto of_validation = opened(spec, named);
    if (!of_validation) return of_validation.error();
    auto validation = open_part(spec.data, model, {*of_validation, 0, true});
    if (!validation) return validation.error().within(named.key());
    auto split = dataset::SplitDataset::create(*std::move(data), *std::move(validation));
    if (!split) return split.error();
    data = SharedData(std::move(*split));
  }
  return ingest::SliceReader(std::move(*data),
                             {spec.train.seed, spec.train.batch, spec.train.slices});
}

Result<Fitness> JobEnvironment::fitness(const job::JobSpec& spec) const {
  return guarded(spec, [&]() -> Result<Fitness> {
    if (auto offered = check_offered(spec); !offered) return offered.error();
    auto model = make_model(spec);
    if (!model) return model.error();
    if (auto fits = check_memory(spec, **model); !fits) return fits.error();
    auto data = reader(spec, **model);
    if (!data) return data.error();
    const auto devices = options_.devices->ready();
    if (!devices) return devices.error();
    compute::DeviceUse use(*devices->front(), "a look whether the node is fit");
    auto print = use.run([&] {
      return compute::fingerprint_of(spec.train, **model, use.device().backend(), data->data());
    });
    if (!print) return print.error();
    Fitness fitness;
    fitness.fingerprint = print->digest.text();
    fitness.fingerprint_text = print->text;
    fitness.version = options_.version;
    fitness.model_digest = print->model.text();
    fitness.memory_needed_bytes = memory_needed(spec, **model);
    fitness.memory_available_bytes = memory_available().value_or(0);
    measure_data(*data, fitness);
    return fitness;
  });
}

Result<void> JobEnvironment::matches(const job::JobSpec& spec) const {
  const Fitness others = fitness_for(spec);
  Fitness program = others;  // compared first: what follows reads all data
  program.version = options_.version;
  if (auto differs = difference(program, others, spec)) return *differs;
  auto own = fitness(spec);
  if (!own) return own.error();
  if (auto differs = difference(*own, others, spec)) return *differs;
  return {};
}

Result<compute::Trainer::Options> JobEnvironment::trainer_options(const job::JobSpec& spec) const {
  auto model = make_model(spec);
  if (!model) return model.error();
  auto data = guarded(spec, [&]() -> Result<ingest::SliceReader> {
    if (auto fits = check_memory(spec, **model); !fits) return fits.error();
    return reader(spec, **model);
  });
  if (!data) return data.error();
  auto devices = options_.devices->ready();
  if (!devices) return devices.error();
  // The bytes may have become others since the node was last found fit.
  auto check = [spec, reader = *data]() -> Result<void> {
    if (spec.data_digest.empty()) return {};
    const Fitness others = fitness_for(spec);
    Fitness own = others;
    measure_data(reader, own);
    if (auto differs = data_difference(own, others, spec)) return *differs;
    return {};
  };
  return compute::Trainer::Options{.model = std::move(*model),
                                   .devices = *std::move(devices),
                                   .user = {},
                                   .spec = spec,
                                   .reader = std::move(*data),
                                   .clock = options_.clock,
                                   .workers = options_.threads,
                                   .spans = {},
                                   .check_data = std::move(check)};
}

Result<dataset::Proof> JobEnvironment::prove(const job::JobSpec& spec, std::uint64_t steps) const {
  if (auto offered = check_offered(spec); !offered) return offered.error();
  auto model = make_model(spec);
  if (!model) return model.error();
  return guarded(spec, [&]() -> Result<dataset::Proof> {
    const auto place = opened(spec, data_of(spec));
    if (!place) return place.error();
    auto source = dataset::TextSource::open(place->files, place->path);
    if (!source) return source.error();
    dataset::ScanSettings settings{
        .seed = spec.train.seed,
        .batch = spec.train.batch,
        .steps = steps * spec.inner_steps(),
        .table = spec.data.format == "table",
        .token_bytes = token_bytes_of(spec.data),
        .context = std::max(2u, (*model)->sample_fields().front().count) - 1,
        .stride = 1,
        .validation_fraction = spec.data.held_out_fraction()};
    return dataset::scan_sum(*source, settings);
  });
}

Result<job::JobSpec> stored_manifest(storage::FileSystem& files, const storage::Path& state,
                                     const JobId& id) {
  const storage::Path folder = state / "jobs" / id.text();
  auto manifest = storage::DurableRecord(files, folder / kManifest.file, kManifest.format).load();
  if (!manifest) return manifest.error();
  if (!*manifest) return Error{ErrorCode::not_found, "no manifest in " + folder.string()};
  return job::decode(**manifest);
}

std::string with_proof(const JobEnvironment& environment, const job::JobSpec& spec,
                       const std::string& report,
                       const std::function<void(std::uint64_t steps)>& on_differs) {
  nlohmann::json out = arguments_of(report);
  // "step" may be less: it is what is reported while members need a lease.
  const auto data_fingerprint =
      field<nlohmann::json>(out, "data_fingerprint", nlohmann::json::object());
  const auto steps = field<std::uint64_t>(data_fingerprint, "steps", 0);
  if (steps == 0) return ok_json(out);  // no state is here, of which anything could be proved
  auto proof = environment.prove(spec, steps);
  if (proof) {
    bool equal = out.contains("data_fingerprint") &&
                 out["data_fingerprint"].value("hash_sum", "") == proof->sum.text() &&
                 out["data_fingerprint"].value("samples", std::uint64_t{0}) == proof->samples;
    out["proof"] = {{"steps", steps},
                    {"hash_sum", proof->sum.text()},
                    {"samples", proof->samples},
                    {"equal_to_data", equal},
                    {"each_sample_once_an_epoch", proof->each_once()}};
    if (!equal) on_differs(steps);
  } else {
    out["proof"] = {{"error", proof.error().message()}};
  }
  return ok_json(out);
}

}  // namespace gpunode::jobs
