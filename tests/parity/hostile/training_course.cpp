#include "tests/parity/hostile/training_course.hpp"

#include <algorithm>
#include <mutex>

#include "actors/checkpoint/checkpoint_shelf.hpp"
#include "actors/inference/served_model.hpp"
#include "actors/messages.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/registry.hpp"
#include "runtime/base/block_digest.hpp"
#include "runtime/dataset/table_dataset.hpp"
#include "runtime/dataset/text_dataset.hpp"
#include "tests/parity/hostile/hostile_backend.hpp"
#include "tests/parity/letters_source.hpp"
#include "tests/parity/rows_source.hpp"
#include "tests/support/memory_file_system.hpp"

namespace gpunode::compute {
namespace {

constexpr std::size_t kSpeculatedElements = 1000;  // at a time
constexpr std::uint32_t kAnsweredTokens = 4;
constexpr const char* kRow = "1,2,3,4,5,6,7,8,9,10,11,12\n";

}  // namespace

TrainingCourse::TrainingCourse(const std::string& kind, std::uint32_t slices,
                               const std::string& mode, Precision precision) {
  spec.train.batch = slices + 2;
  spec.train.slices = slices;
  spec.train.steps = kSteps;
  spec.train.warmup_steps = 1;
  spec.exchange.inner_steps = 2;
  spec.exchange.rounds_ahead = 1;
  const auto set_mode = job::set(spec, "exchange.mode", mode);
  GPUNODE_CHECK(set_mode, set_mode.error().message());
  model::Settings settings = {
      {"layers", "2"}, {"channels", "16"}, {"heads", "2"}, {"context", "8"}};
  const bool is_wider = kind == "small-gpt";
  if (is_wider) settings["channels"] = "64";
  if (kind == "llama") settings["kv_heads"] = "1";
  if (kind == "resnet") settings = {{"height", "3"}, {"width", "4"}, {"filters", "4"}};
  std::shared_ptr<model::Model> model =
      std::move(*model::make_model(is_wider ? "gpt" : kind, settings));
  const auto precise = model->use_precision(precision);
  GPUNODE_CHECK(precise, "every kind computes in it");
  model_ = std::move(model);
  if (kind == "resnet")
    data_ = *dataset::TableDataset::create(rows_source(12, 10), 0.2);
  else
    data_ =
        *dataset::TextDataset::create(letters_source(), {.context = 8, .validation_fraction = 0.2});
  nodes = collective::Tree::of_slices(slices).cover([&] {
    std::vector<std::uint32_t> all(slices);
    for (std::uint32_t slice = 0; slice < slices; ++slice) all[slice] = slice;
    return all;
  }());
}

Result<std::unique_ptr<Trainer>> TrainingCourse::open_trainer(const Devices& devices, int workers) {
  return Trainer::create(
      {.model = model_,
       .devices = devices,
       .spec = spec,
       .reader = ingest::SliceReader(data_, {spec.train.seed, spec.train.batch, spec.train.slices}),
       .clock = clock,
       .workers = workers,
       .slice_budget_bytes = slice_budget_bytes,
       .evaluated_tokens = 64});
}

Result<void> TrainingCourse::host_reads(const Devices& devices, ByteView bytes) {
  for (NodeDevice* device : devices)
    if (auto* hostile = dynamic_cast<hostile::HostileBackend*>(&device->backend()))
      if (auto done = hostile->host_reads(bytes); !done) return done;
  return {};
}

Result<void> TrainingCourse::compute(Trainer& trainer, const Devices& devices,
                                     std::vector<float>& total,
                                     std::vector<std::vector<float>>& sums) {
  trainer.want(trainer.step() + 1, nodes, stays ? SumsGo::nowhere : SumsGo::to_members);
  std::map<TreeNode, std::vector<float>> told;
  std::mutex mutex;
  Result<void> reading;
  const auto tell = [&](const SumRange& range) {
    std::lock_guard lock(mutex);
    const auto part = std::span(*range.sum).subspan(range.first, range.count);
    if (auto done = host_reads(devices, std::as_bytes(part)); !done) reading = done;
    std::vector<float>& sum = told[range.node];
    sum.resize(trainer.element_count());
    std::ranges::copy(part, sum.begin() + static_cast<std::ptrdiff_t>(range.first));
    if (on_told) on_told(trainer, range);
  };
  do {
    if (auto done = trainer.compute_some(tell); !done) return done;
  } while (!trainer.idle());
  for (auto& [node, sum] : told) {
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += sum[i];
    sums.push_back(std::move(sum));
  }
  return reading;
}

Result<void> TrainingCourse::speculate(Trainer& trainer, const SharedFloats& total) {
  for (std::size_t first = 0; first < total.size(); first += kSpeculatedElements) {
    const std::size_t count = std::min(kSpeculatedElements, total.size() - first);
    auto done = trainer.update_speculatively(trainer.step() + 1, total, first, count);
    if (!done) return done;
  }
  return {};
}

Result<void> TrainingCourse::step(Trainer& trainer, const Devices& devices, const How& how,
                                  Course& course) {
  auto total = std::make_shared<std::vector<float>>(trainer.element_count());
  if (auto done = compute(trainer, devices, *total, course.sums); !done) return done;
  return apply(trainer, total, how.speculates, course);
}

Result<void> TrainingCourse::apply(Trainer& trainer, const SharedFloats& total, bool speculates,
                                   Course& course) {
  if (speculates)
    if (auto done = speculate(trainer, total); !done) return done;
  const auto report = trainer.apply(trainer.step() + 1, total);
  if (!report) return report.error();
  course.states.push_back(report->state);
  course.losses.push_back(report->loss);
  return {};
}

Result<SharedBytes> TrainingCourse::through_checkpoint(Trainer& trainer, const Devices& devices,
                                                       storage::FileSystem& files,
                                                       storage::Path& folder) {
  checkpoint::CheckpointOptions options;
  options.job = {1, 1};
  options.spec = spec;
  options.model = model_;
  options.files = &files;
  options.root = "/checkpoints";
  options.clock = clock;
  checkpoint::CheckpointShelf shelf(std::move(options));
  const auto digest = trainer.state_digest();
  if (!digest) return digest.error();
  auto state = trainer.state_bytes();
  if (!state) return state;
  if (auto done = host_reads(devices, state->view); !done) return done.error();
  WriteCheckpoint order;
  order.step = trainer.step();
  order.history = {1, 0};
  order.state_digest = *digest;
  order.state = *state;
  auto written = shelf.write(order);
  if (!written) return written.error();
  folder = *written;
  if (shelf.find().newest.step != trainer.step())
    return Error{ErrorCode::corrupted, "the checkpoint just written is not the newest intact one"};
  auto read = shelf.read(trainer.step());
  if (read && block_digest_of(read->view) != *digest)
    return Error{ErrorCode::corrupted, "the checkpoint is not the state that the device proved"};
  return read;
}

Result<std::string> TrainingCourse::serve(ops::Backend& backend, const storage::FileSystem& files,
                                          const storage::Path& folder) const {
  compute::NodeDevice device("hostile", backend);
  auto served = inference::ServedModel::load(
      {.device = &device, .files = &files, .clock = clock, .path = folder, .workers = 1});
  if (!served) return served.error();
  // What a drained device gives back, where the files are gone, is what is asked.
  auto moved = inference::ServedModel::move(
      **served,
      {.device = &device, .files = &files, .clock = clock, .path = folder / "gone", .workers = 1});
  if (!moved) return moved.error();
  served = std::move(moved);
  std::string answers;
  const std::string row = kRow;
  const bool is_table = model_->kind() == "resnet";
  for (const std::string& prompt : {is_table ? row : std::string("abc"),
                                    is_table ? row + row : std::string("z"), row + row + row}) {
    const auto answer = (*served)->generate({.prompt = is_table ? prompt : prompt.substr(0, 4),
                                             .max_tokens = kAnsweredTokens,
                                             .seed = 7},
                                            Time::max());
    if (!answer) return answer.error();
    answers += answer->text + "|" + answer->model_digest + "\n";
  }
  return answers;
}

Result<Course> TrainingCourse::follow(const Devices& devices, const How& how) {
  const auto host = cpu::open_backend();
  NodeDevice own("cpu", *host);
  auto leader = open_trainer({&own}, 1);
  if (!leader) return leader.error();
  auto follower = open_trainer(devices, how.workers);
  if (!follower) return follower.error();
  Course led, followed;
  while ((*leader)->step() < kSteps) {
    auto total = std::make_shared<std::vector<float>>((*leader)->element_count());
    if (auto done = compute(**leader, {}, *total, led.sums); !done) return done.error();
    for (Trainer* one : {leader->get(), follower->get()}) {
      const bool follows = one == follower->get();
      auto done = apply(*one, total, follows && how.speculates, follows ? followed : led);
      if (!done) return done.error();
    }
  }
  return followed;
}

Result<Course> TrainingCourse::take(const Devices& devices, const How& how) {
  Course course;
  const auto fingerprint = fingerprint_of(spec.train, *model_, devices.front()->backend(), *data_);
  if (!fingerprint) return fingerprint.error();
  course.fingerprint = fingerprint->digest;
  auto first = open_trainer(devices, how.workers);
  if (!first) return first.error();
  if (auto done = step(**first, devices, how, course); !done) return done.error();
  // A learner takes the state over, and goes on.
  testing::MemoryFileSystem files;
  storage::Path folder;
  const auto state = through_checkpoint(**first, devices, files, folder);
  if (!state) return state.error();
  auto learner = open_trainer(devices, how.workers);
  if (!learner) return learner.error();
  if (auto done = (*learner)->install(1, state->view); !done) return done.error();
  while ((*learner)->step() < kSteps)
    if (auto done = step(**learner, devices, how, course); !done) return done.error();
  const auto held_out = (*learner)->evaluate();
  if (!held_out) return held_out.error();
  course.held_out = held_out->loss;
  if (auto last = through_checkpoint(**learner, devices, files, folder); !last) return last.error();
  auto answers = serve(devices.back()->backend(), files, folder);
  if (!answers) return answers.error();
  course.answers = *std::move(answers);
  return course;
}

}  // namespace gpunode::compute
