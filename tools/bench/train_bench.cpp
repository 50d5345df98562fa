// Training speed of two GPTs, of 0.8 and of 124 million parameters, in 4 slices on 2 threads: rounds
// of ours and of PyTorch's releases alternate, and the medians are compared.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/registry.hpp"
#include "runtime/base/rng.hpp"
#include "tools/bench/benchmarks.hpp"
#include "tools/bench/flags.hpp"
#include "tools/bench/local_trainer.hpp"
#include "tools/bench/median.hpp"
#include "tools/bench/rank_board.hpp"

#ifndef GPUNODE_BENCH_PEERS
#define GPUNODE_BENCH_PEERS "tools/bench/peers"
#endif

namespace gpunode::bench {
namespace {

struct Options {
  double seconds = 4;  // of a round
  int workers = 2;
  int rounds = 3;
  std::vector<std::string> models = {"small", "gpt2-124m"};
  std::vector<std::string> precisions = {"fp32", "bf16"};
  bool peers = true;
  std::string wheel;  // an interpreter that imports PyPI's torch; none: that one is left out
  bool require = false;
};

bool parse(int argc, char** argv, Options& options) {
  CLI::App flags;
  flags.add_flag("!--no-peer", options.peers);
  flags.add_option("--seconds", options.seconds)->check(CLI::PositiveNumber);
  flags.add_option("--workers", options.workers)->check(CLI::PositiveNumber);
  flags.add_option("--rounds", options.rounds)->check(CLI::PositiveNumber);
  flags.add_option("--model", options.models)->delimiter(',');
  flags.add_option("--precision", options.precisions)->delimiter(',');
  flags.add_option("--wheel", options.wheel)->check(CLI::ExistingFile);
  flags.add_flag("--require", options.require);
  return parsed(flags, argc, argv);
}

struct Subject {
  std::string name;
  model::Settings settings;
  std::size_t batch;
};

const std::vector<Subject>& subjects() {
  static const std::vector<Subject> all = {{"small", {}, 12},
                                           {"gpt2-124m",
                                            {{"layers", "12"},
                                             {"heads", "12"},
                                             {"channels", "768"},
                                             {"context", "64"},
                                             {"vocabulary", "50257"}},
                                            4}};
  return all;
}

// Tokens a second of wall time, and of CPU time summed over threads; the latter tells more where
// the machine is shared. Zeros: could not be measured.
struct Rate {
  double wall = 0, cpu = 0;
};

class Contender {
 public:
  Contender(std::string name, std::string precision)
      : name_(std::move(name)), precision_(std::move(precision)) {}
  virtual ~Contender() = default;
  void measure(double seconds) {
    if (skipped_) return;
    const Rate rate = round(seconds);
    if (rate.wall > 0) {
      wall_.push_back(rate.wall);
      cpu_.push_back(rate.cpu);
    } else {
      skipped_ = true;
    }
  }
  bool measured() const { return !wall_.empty(); }
  Rate rate() const { return {median(wall_), median(cpu_)}; }
  std::vector<double> rounds() const { return wall_; }
  const std::string& name() const { return name_; }
  const std::string& precision() const { return precision_; }

 private:
  virtual Rate round(double seconds) = 0;

  std::string name_, precision_;
  std::vector<double> wall_, cpu_;
  bool skipped_ = false;
};

// A PyTorch, in a process of its own.
class Torch final : public Contender {
 public:
  Torch(std::string name, std::string precision, std::string command)
      : Contender(std::move(name), std::move(precision)), command_(std::move(command)) {}

 private:
  Rate round(double seconds) override {
    const std::string line = command_ + " --seconds " + std::to_string(seconds) + " 2>/dev/null";
    FILE* pipe = popen(line.c_str(), "r");
    if (!pipe) return {};
    Rate rate;
    const int fields =
        std::fscanf(pipe, "tokens_per_second %lf per_cpu_second %lf", &rate.wall, &rate.cpu);
    const int status = pclose(pipe);
    return fields == 2 && status == 0 ? rate : Rate{};
  }

  std::string command_;
};

class OwnTrainer final : public Contender {
 public:
  static Result<std::unique_ptr<OwnTrainer>> open(const Subject& subject,
                                                  const std::string& precision,
                                                  ops::Backend& backend, const Options& options) {
    std::unique_ptr<OwnTrainer> ours(new OwnTrainer(precision, options));
    auto model = model::make_model("gpt", subject.settings);
    if (!model) return model.error();
    ours->model_ = std::move(*model);
    const auto parsed = parse_precision(precision);
    if (!parsed) return parsed.error();
    if (auto used = ours->model_->use_precision(*parsed); !used) return used.error();
    TrainerOptions settings;
    settings.workers = options.workers;
    settings.batch = subject.batch;
    settings.optimizer.total_steps = 1'000'000;
    auto trainer = LocalTrainer::open(*ours->model_, backend, settings);
    if (!trainer) return trainer.error();
    ours->trainer_ = std::move(*trainer);
    ours->tokens_ = subject.batch * ours->model_->tokens_per_sample();
    ours->fill_data();
    ours->round(0.5);  // warm up
    return ours;
  }

 private:
  OwnTrainer(const std::string& precision, const Options&) : Contender("gpunode", precision) {}

  void fill_data() {
    const bool bytes = model_->sample_fields().front().dtype == SampleDtype::u8;
    data_.resize(1 << 20);
    for (std::size_t at = 0; bytes && at < data_.size(); ++at)
      data_[at] = static_cast<std::uint8_t>(32 + mix(7, at) % 64);
    for (std::size_t at = 0; !bytes && at < data_.size(); at += sizeof(std::int32_t)) {
      const auto token = static_cast<std::int32_t>(mix(7, at) % 50257);
      std::memcpy(&data_[at], &token, sizeof token);
    }
  }

  Rate round(double seconds) override {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    const double cpu_start = processor_seconds();
    std::size_t steps = 0;
    for (;;) {
      auto report = trainer_->step(++step_, data_);
      if (!report) {
        std::fprintf(stderr, "%s\n", report.error().message().c_str());
        return {};
      }
      ++steps;
      const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
      const auto tokens = static_cast<double>(steps * tokens_);
      if (elapsed >= seconds) return {tokens / elapsed, tokens / (processor_seconds() - cpu_start)};
    }
  }

  std::unique_ptr<model::Model> model_;
  std::unique_ptr<LocalTrainer> trainer_;
  std::vector<std::uint8_t> data_;
  std::size_t tokens_ = 0;
  std::uint64_t step_ = 0;
};

using Contenders = std::vector<std::unique_ptr<Contender>>;

void add_peers(const Subject& subject, const Options& options, Contenders& into) {
  const std::string threads = std::to_string(options.workers);
  const auto add = [&](const std::string& name, const std::string& precision,
                       const std::string& python, const std::string& words) {
    into.push_back(std::make_unique<Torch>(
        name, precision,
        python + " " GPUNODE_BENCH_PEERS "/torch_train.py --model " + subject.name + " --threads " +
            threads + " --precision " + precision + words));
  };
  // Debian's: the OpenMP build of OpenBLAS and its AVX-512 kernels; without them it is slower.
  add("PyTorch of Debian", "fp32",
      "OPENBLAS_CORETYPE=SKYLAKEX OMP_NUM_THREADS=" + threads + " /usr/bin/python3", "");
  if (options.wheel.empty()) return;
  for (const char* precision : {"fp32", "bf16"})
    for (const bool compiled : {false, true})
      add(compiled ? "PyTorch compiled" : "PyTorch eager", precision,
          "OMP_NUM_THREADS=" + threads + " " + options.wheel, compiled ? " --compile" : "");
}

struct Bar {
  const char* model;
  const char* precision;       // ours
  const char* peer_precision;  // the fastest of the peers in it counts
  bool debian;                 // Debian's PyTorch, else the wheel
  double least;
};

constexpr Bar kBars[] = {
    {"small", "fp32", "fp32", true, 2.0},      {"gpt2-124m", "fp32", "fp32", true, 1.8},
    {"gpt2-124m", "bf16", "fp32", true, 2.8},  {"small", "fp32", "fp32", false, 2.1},
    {"gpt2-124m", "fp32", "fp32", false, 2.5}, {"gpt2-124m", "bf16", "bf16", false, 3.0}};

bool report_bars(const Subject& subject, const Contenders& contenders) {
  bool held = true;
  for (const Bar& bar : kBars) {
    if (subject.name != bar.model) continue;
    const Contender *own = nullptr, *best = nullptr;
    for (const auto& one : contenders) {
      if (!one->measured()) continue;
      const bool ours = one->name() == "gpunode";
      const bool debian = one->name() == "PyTorch of Debian";
      if (ours && one->precision() == bar.precision) own = one.get();
      if (ours || debian != bar.debian || one->precision() != bar.peer_precision) continue;
      if (!best || one->rate().wall > best->rate().wall) best = one.get();
    }
    if (!own || !best) continue;
    const double ratio = own->rate().wall / best->rate().wall;
    held = held && ratio >= bar.least;
    std::printf("  %s / %s %s: %.2f (%.2f in CPU time), bar %.1f%s\n", bar.precision,
                best->name().c_str(), bar.peer_precision, ratio, own->rate().cpu / best->rate().cpu,
                bar.least, ratio < bar.least ? ": BELOW" : "");
  }
  return held;
}

Result<bool> run(const Subject& subject, ops::Backend& backend, const Options& options) {
  Contenders contenders;
  for (const std::string& precision : options.precisions) {
    auto ours = OwnTrainer::open(subject, precision, backend, options);
    if (!ours) return ours.error();
    contenders.push_back(std::move(*ours));
  }
  if (options.peers) add_peers(subject, options, contenders);
  for (int round = 0; round < options.rounds; ++round)
    for (const auto& one : contenders) one->measure(options.seconds);
  std::printf("%s, batch %zu in 4 slices, %d threads, %s (%s), median of %d rounds\n",
              subject.name.c_str(), subject.batch, options.workers,
              backend.capabilities().instruction_set.c_str(),
              backend.capabilities().library.c_str(), options.rounds);
  for (const auto& one : contenders) {
    if (!one->measured()) {
      std::printf("  %-18s %s  skipped: it does not run here\n", one->name().c_str(),
                  one->precision().c_str());
      continue;
    }
    const auto rounds = one->rounds();
    const auto [least, most] = std::ranges::minmax(rounds);
    std::printf("  %-18s %s  %.0f tokens/s [%.0f-%.0f], %.0f a CPU second\n", one->name().c_str(),
                one->precision().c_str(), one->rate().wall, least, most, one->rate().cpu);
  }
  const bool held = report_bars(subject, contenders);
  std::fflush(stdout);
  return held;
}

}  // namespace

int train(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: gpunode-bench train [--model small,gpt2-124m] [--precision fp32,bf16] "
                 "[--seconds S] [--workers N] [--rounds R] [--no-peer] [--wheel PYTHON] "
                 "[--require]\n");
    return 2;
  }
  auto backend = cpu::open_backend();
  bool held = true;
  for (const Subject& subject : subjects()) {
    if (std::ranges::find(options.models, subject.name) == options.models.end()) continue;
    const auto done = run(subject, *backend, options);
    if (!done) {
      std::fprintf(stderr, "%s\n", done.error().message().c_str());
      return 1;
    }
    held = held && *done;
  }
  return options.require && !held ? 1 : 0;
}

}  // namespace gpunode::bench
