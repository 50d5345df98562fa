// Learning in the exchange modes, on real text: two members in one process with the product's
// trainer and exchange, and nothing between them but the messages. What they reach is held against
// exact mode after the same inner steps, and the bytes are counted. Skipped where the text is
// absent.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>

#include "actors/compute/trainer.hpp"
#include "actors/compute/wire_forms.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/registry.hpp"
#include "runtime/collective/all_reduce.hpp"
#include "runtime/dataset/text_dataset.hpp"
#include "runtime/storage/posix_file_system.hpp"

namespace gpunode {
namespace {

constexpr std::uint16_t kMembers = 2;

std::string text_path() {
  if (const char* named = std::getenv("GPUNODE_TINYSHAKESPEARE")) return named;
  std::filesystem::path folder = GPUNODE_SOURCE_DIR;
  for (int up = 0; up < 4; ++up, folder = folder.parent_path())
    if (auto path = folder / "shared" / "data" / "tinyshakespeare.txt"; exists(path)) return path;
  return {};
}

struct Outcome {
  double validation_loss = 0;
  std::uint64_t bytes = 0;  // of payloads, sent by both
};

class Learning : public ::testing::Test {
 protected:
  void SetUp() override {
    if (text_path().empty()) GTEST_SKIP() << "no ../shared/data/tinyshakespeare.txt";
  }

  static job::JobSpec spec(const std::string& mode, std::uint64_t inner_steps) {
    job::JobSpec spec;
    spec.name = "learn";
    spec.data.path = text_path();
    auto done = set(spec, "exchange.mode", mode);
    GPUNODE_CHECK(done, done.error().message());
    spec.train.steps = inner_steps / spec.inner_steps();
    spec.train.batch = 8;
    spec.train.slices = 4;
    return spec;
  }

  std::unique_ptr<compute::Trainer> trainer(const job::JobSpec& spec) {
    auto model = model::make_model(
        "gpt", {{"layers", "2"}, {"heads", "4"}, {"channels", "64"}, {"context", "64"}});
    GPUNODE_CHECK(model, model.error().message());
    auto source = dataset::TextSource::open(files_, spec.data.path);
    GPUNODE_CHECK(source, source.error().message());
    auto data = dataset::TextDataset::create(
        std::make_shared<const dataset::TextSource>(std::move(*source)),
        {.context = 64, .stride = 1, .validation_fraction = 0.1});
    GPUNODE_CHECK(data, data.error().message());
    auto made = compute::Trainer::create(
        {.model = std::move(*model),
         .devices = {&device_},
         .spec = spec,
         .reader = ingest::SliceReader(std::move(*data),
                                       {spec.train.seed, spec.train.batch, spec.train.slices}),
         .clock = &clock_,
         .workers = 1});
    GPUNODE_CHECK(made, made.error().message());
    return std::move(*made);
  }

  using Forms = std::vector<std::shared_ptr<collective::ChunkForm>>;  // by rank

  Outcome run(const job::JobSpec& spec) {
    auto forms = compute::wire_forms_of(*backend_, spec.exchange);
    GPUNODE_CHECK(forms, forms.error().message());
    std::vector<std::unique_ptr<compute::Trainer>> trainers;
    Forms in_form;
    for (std::uint16_t rank = 0; rank < kMembers; ++rank) {
      trainers.push_back(trainer(spec));
      in_form.push_back(collective::chunk_form_of(*forms));
    }
    Outcome outcome;
    for (std::uint64_t step = 1; step <= spec.train.steps; ++step) {
      const auto results = exchange(step, in_form, trainers, outcome.bytes);
      std::vector<Digest> states;
      for (std::uint16_t rank = 0; rank < kMembers; ++rank) {
        auto report = trainers[rank]->apply(step, results[rank]);
        GPUNODE_CHECK(report, report.error().message());
        states.push_back(report->state);
        in_form[rank]->on_commit();
      }
      EXPECT_EQ(states[0], states[1]) << "step " << step;
    }
    outcome.validation_loss = trainers[0]->evaluate()->loss;
    std::printf("%-6s %5llu steps: validation loss %.4f, %.1f MB sent\n",
                job::facts_of(spec.exchange.mode).name,
                static_cast<unsigned long long>(spec.train.steps * spec.inner_steps()),
                outcome.validation_loss, 1e-6 * static_cast<double>(outcome.bytes));
    std::fflush(stdout);
    return outcome;
  }

 private:
  using Trainers = std::vector<std::unique_ptr<compute::Trainer>>;
  std::vector<collective::SharedFloats> exchange(std::uint64_t step, const Forms& forms,
                                                 Trainers& trainers, std::uint64_t& bytes) {
    const collective::Tree& tree = trainers[0]->tree();
    std::vector<collective::AllReduce> exchanges;
    std::deque<std::pair<std::uint16_t, collective::SendTo>> wire;
    for (std::uint16_t rank = 0; rank < kMembers; ++rank) {
      collective::AllReduce::Options options;
      options.rank = rank;
      options.member_count = kMembers;
      options.tree = tree;
      options.plan = collective::balanced_plan(tree, kMembers);
      options.layout = collective::ChunkLayout::of(trainers[0]->element_count());
      options.add = add_;
      options.form = forms[rank];
      exchanges.emplace_back(std::move(options), Time{});
    }
    for (std::uint16_t rank = 0; rank < kMembers; ++rank) {
      compute::Trainer& trainer = *trainers[rank];
      trainer.want(step, exchanges[rank].own_cover());
      std::vector<collective::SendTo> out;
      while (!trainer.idle()) {
        auto done = trainer.compute_some([&](compute::SumRange range) {
          exchanges[rank].on_partial_range({}, range.node, range.sum, range.data_fingerprint,
                                           range.first, range.count, out);
        });
        GPUNODE_CHECK(done, done.error().message());
      }
      for (auto& send : out) wire.emplace_back(rank, std::move(send));
    }
    while (!wire.empty()) {
      auto [from, send] = std::move(wire.front());
      wire.pop_front();
      if (auto* one = std::get_if<collective::PartialChunk>(&send.message))
        bytes += one->payload.size();
      if (auto* one = std::get_if<collective::ResultChunk>(&send.message))
        bytes += one->payload.size();
      std::vector<collective::SendTo> out;
      exchanges[send.rank].on_message({}, from, send.message, out);
      for (auto& next : out) wire.emplace_back(send.rank, std::move(next));
    }
    std::vector<collective::SharedFloats> results;
    for (auto& exchange : exchanges) {
      GPUNODE_CHECK(exchange.committed(), "not committed");
      results.push_back(exchange.result());
    }
    return results;
  }

  std::shared_ptr<const storage::FileSystem> files_ = std::make_shared<storage::PosixFileSystem>();
  SystemClock clock_;
  std::unique_ptr<ops::Backend> backend_ = cpu::open_backend();
  compute::NodeDevice device_{"cpu", *backend_};
  collective::AddFn add_ = compute::add_of(*backend_);
};

std::uint64_t steps_of(std::uint64_t normal) {
  const char* text = std::getenv("GPUNODE_LEARN_STEPS");
  return text ? std::strtoull(text, nullptr, 10) : normal;
}

TEST_F(Learning, with_local_rounds_ends_near_exact_with_a_hundredth_of_the_bytes) {
  const std::uint64_t steps = steps_of(2000);
  const Outcome exact = run(spec("exact", steps));
  for (std::uint32_t ahead : {0u, 1u}) {
    job::JobSpec rounds = spec("local", steps);
    rounds.exchange.rounds_ahead = ahead;
    const Outcome local = run(rounds);
    EXPECT_LE(local.validation_loss, exact.validation_loss * 1.02) << ahead << " rounds ahead";
    EXPECT_GE(exact.bytes, local.bytes * 100);
  }
}

TEST_F(Learning, with_fewer_bytes_a_step_ends_near_exact) {
  const std::uint64_t steps = steps_of(600);
  const Outcome exact = run(spec("exact", steps));
  for (const char* mode : {"bf16", "int8"})
    EXPECT_LE(run(spec(mode, steps)).validation_loss, exact.validation_loss * 1.02) << mode;
  for (auto [density, bar] : {std::pair(0.1, 1.05), std::pair(0.01, 1.2)}) {
    job::JobSpec topk = spec("topk", steps);
    topk.exchange.density = density;
    EXPECT_LE(run(topk).validation_loss, exact.validation_loss * bar) << density;
  }
}

}  // namespace
}  // namespace gpunode
