// How well the exchange hides behind the computation: members in one process, whose link is so slow
// that an exchange takes as long as forward, backward and update. Rounds of computing alone, of
// exchanging alone, of one after the other, of both at once and of steps that overlap with the next
// ones take turns; medians are compared with each other and with what the plan predicts.
#include <algorithm>
#include <barrier>
#include <cstdio>
#include <string>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/registry.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/dataset/text_dataset.hpp"
#include "tools/bench/benchmarks.hpp"
#include "tools/bench/flags.hpp"
#include "tools/bench/median.hpp"
#include "tools/bench/overlap_member.hpp"
#include "tools/bench/paced_model.hpp"

namespace gpunode::bench {
namespace {

struct Options {
  std::uint16_t members = 2;
  std::uint32_t slices_each = 4;
  int rounds = 7;
  bool device = true;  // the stand-in; else the GPT on this machine's cores, one worker a member
  std::string layers = "8", channels = "128", context = "64";
  std::uint32_t samples = 1;  // a slice
  double clip = 1.0;
  double require = 0;
};

bool parse(int argc, char** argv, Options& options) {
  CLI::App flags;
  flags.add_flag("!--gpt", options.device);
  flags.add_option("--members", options.members)->check(CLI::Range(2, 8));
  flags.add_option("--slices", options.slices_each)->check(CLI::PositiveNumber);
  flags.add_option("--samples", options.samples)->check(CLI::PositiveNumber);
  flags.add_option("--rounds", options.rounds)->check(CLI::PositiveNumber);
  flags.add_option("--layers", options.layers);
  flags.add_option("--channels", options.channels);
  flags.add_option("--context", options.context);
  flags.add_option("--clip", options.clip);
  flags.add_option("--require", options.require);
  return parsed(flags, argc, argv);
}

// The members of a round act on one thread each; a step's times are the slowest member's.
class Bench {
 public:
  static Result<std::unique_ptr<Bench>> open(const Options& options) {
    std::unique_ptr<Bench> bench(new Bench(options));
    if (auto done = bench->make_members(); !done) return done.error();
    return bench;
  }

  using Act = std::function<Result<StepTimes>(OverlapMember&)>;
  Result<StepTimes> together(const Act& act) {
    std::vector<std::optional<Result<StepTimes>>> results(members_.size());
    std::barrier start(static_cast<std::ptrdiff_t>(members_.size()));
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < members_.size(); ++rank)
      threads.emplace_back([&, rank] {
        start.arrive_and_wait();
        results[rank] = act(*members_[rank]);
      });
    for (std::thread& thread : threads) thread.join();
    StepTimes slowest;
    for (const auto& result : results) {
      if (!*result) return result->error();
      for (double StepTimes::*part :
           {&StepTimes::first_range, &StepTimes::gradient, &StepTimes::step, &StepTimes::optimizing,
            &StepTimes::loading, &StepTimes::digesting})
        slowest.*part = std::max(slowest.*part, (**result).*part);
    }
    return slowest;
  }
  double gradient_norm() const { return members_.front()->gradient_norm(); }

  PacedWire& wire() { return *wire_; }
  std::uint64_t most_sent() const {
    std::uint64_t most = 0;
    for (std::uint16_t rank = 0; rank < options_.members; ++rank)
      most = std::max(most, wire_->sent_bytes(rank));
    return most;
  }
  bool equal() const {
    for (const auto& trainer : trainers_)
      if (*trainer->state_digest() != *trainers_.front()->state_digest()) return false;
    return true;
  }
  std::uint64_t gradient_bytes() const { return trainers_.front()->element_count() * 4; }
  const compute::SliceMemory& memory() const { return trainers_.front()->slice_memory(); }
  std::string name() const { return model_->name(); }
  // All members take the state of the first, after they went different ways.
  Result<void> align() {
    const SharedBytes state = *trainers_.front()->state_bytes();
    for (auto& trainer : trainers_)
      if (auto done = trainer->install(trainers_.front()->step(), state.view); !done) return done;
    return {};
  }

 private:
  explicit Bench(const Options& options) : options_(options), device_("cpu", *backend_) {}

  Result<void> make_members() {
    if (options_.device) {
      model_ = make_paced_model();
    } else {
      auto made = model::make_model("gpt", {{"layers", options_.layers},
                                            {"channels", options_.channels},
                                            {"context", options_.context}});
      if (!made) return made.error();
      model_ = std::move(*made);
    }
    Bytes text(1 << 18);
    for (std::size_t place = 0; place < text.size(); ++place)
      text[place] = static_cast<std::byte>(32 + mix(7, place) % 64);
    auto source = std::make_shared<dataset::TextSource>(
        dataset::TextSource::from_memory({{"text", std::move(text)}}));
    auto data = dataset::TextDataset::create(
        source, {.context = static_cast<std::uint32_t>(model_->tokens_per_sample())});
    if (!data) return data.error();
    job::JobSpec spec;
    spec.train.slices = options_.slices_each * options_.members;
    spec.train.batch = spec.train.slices * options_.samples;
    spec.train.steps = 1'000'000;
    spec.train.clip = options_.clip;
    wire_ = std::make_unique<PacedWire>(
        options_.members, [this](std::uint16_t from, std::uint16_t to, std::uint64_t exchange,
                                 const collective::ExchangeMessage& message) {
          members_[to]->arrived(from, exchange, message);
        });
    const auto tree = collective::Tree::of_slices(spec.train.slices);
    for (std::uint16_t rank = 0; rank < options_.members; ++rank) {
      auto trainer = compute::Trainer::create(
          {.model = model_,
           .devices = {&device_},
           .spec = spec,
           .reader =
               ingest::SliceReader(*data, {spec.train.seed, spec.train.batch, spec.train.slices}),
           .clock = &clock_,
           .workers = 1});
      if (!trainer) return trainer.error();
      trainers_.push_back(std::move(*trainer));
      members_.push_back(std::make_unique<OverlapMember>(
          MemberOptions{.rank = rank,
                        .member_count = options_.members,
                        .plan = collective::balanced_plan(tree, options_.members),
                        .wire = wire_.get(),
                        .trainer = trainers_.back().get(),
                        .add = compute::add_of(*backend_)}));
    }
    return {};
  }

  Options options_;
  SystemClock clock_;
  std::unique_ptr<ops::Backend> backend_ = cpu::open_backend();
  compute::NodeDevice device_;
  std::shared_ptr<const model::Model> model_;
  std::vector<std::unique_ptr<compute::Trainer>> trainers_;
  std::vector<std::unique_ptr<OverlapMember>> members_;
  std::unique_ptr<PacedWire> wire_;  // goes first: its threads call the members
};

struct Samples {
  std::vector<StepTimes> compute;
  std::vector<double> exchange, apart, overlapped, ahead, gap;
  double wire = 0;           // what the bytes need
  double gradient_norm = 0;  // of the last step
};

constexpr int kStepsInARow = 5;

// What an act tells as one number, as a step's time.
template <class Told>
Bench::Act timed(Told told) {
  return [told](OverlapMember& member) -> Result<StepTimes> {
    Result<double> time = told(member);
    if (!time) return time.error();
    return StepTimes{.step = *time};
  };
}

// One round; the wire has its rate.
Result<void> measure(Bench& bench, Samples& samples) {
  const auto steps = [](bool ahead) {
    return timed([ahead](OverlapMember& one) { return one.exchange_steps(kStepsInARow, ahead); });
  };
  const std::pair<Bench::Act, std::vector<double>*> acts[] = {
      {steps(true), &samples.ahead},
      {steps(false), &samples.overlapped},
      {[](OverlapMember& one) { return one.exchange_apart(); }, &samples.apart},
      {timed([](OverlapMember& one) { return Result<double>(one.exchange_again()); }),
       &samples.exchange}};
  for (const auto& [act, times] : acts) {
    auto taken = bench.together(act);
    if (!taken) return taken.error();
    times->push_back(taken->step);
  }
  if (!bench.equal()) return Error{ErrorCode::corrupted, "the members' states differ"};
  samples.gradient_norm = bench.gradient_norm();
  auto compute = bench.together([](OverlapMember& one) { return one.compute_step(); });
  if (!compute) return compute.error();
  auto gap = bench.together(timed([](OverlapMember& one) { return one.gap_step(); }));
  if (!gap) return gap.error();
  if (auto done = bench.align(); !done) return done.error();
  samples.gap.push_back(gap->step);
  samples.compute.push_back(*compute);
  return {};
}

Result<Samples> rounds(Bench& bench, const Options& options) {
  std::vector<double> first;
  for (int round = 0; round < 5; ++round) {
    auto times = bench.together([](OverlapMember& one) { return one.compute_step(); });
    if (!times) return times.error();
    if (round > 0) first.push_back(times->step);
  }
  if (auto done = bench.align(); !done) return done.error();
  const std::uint64_t sent = bench.most_sent();
  auto exchanged = bench.together([](OverlapMember& one) { return one.exchange_apart(); });
  if (!exchanged) return exchanged.error();
  Samples samples;
  samples.wire = median(first);
  bench.wire().set_rate(static_cast<double>(bench.most_sent() - sent) / samples.wire);
  for (int round = 0; round < options.rounds; ++round)
    if (auto done = measure(bench, samples); !done) return done.error();
  return samples;
}

int report(const Bench& bench, const Options& options, const Samples& samples) {
  const auto computing = [&](double StepTimes::*part) {
    std::vector<double> times;
    std::ranges::transform(samples.compute, std::back_inserter(times), part);
    return median(std::move(times));
  };
  const double compute = computing(&StepTimes::step), first = computing(&StepTimes::first_range);
  const double gradient_there = computing(&StepTimes::gradient);
  const double update = compute - gradient_there;
  const double ahead = median(samples.ahead), gap = median(samples.gap);
  // Where the whole sum is waited for, nothing can leave before the first part is final, and
  // nothing be applied before the last part is back. Else the wire has nothing to carry only from
  // the last part's arrival to the next step's first part.
  const double whole_bound = std::max(first + samples.wire, gradient_there) + update;
  const double bound = std::max(samples.wire + gap, compute);
  const auto line = [&](const char* what, double value) {
    std::printf("%-34s %8.2f ms  %5.2f x compute\n", what, 1e3 * value, value / compute);
  };
  std::printf("%s, %.1f MB of gradient, %u members, %u slices each; medians of %d\n",
              bench.name().c_str(), static_cast<double>(bench.gradient_bytes()) / 1e6,
              options.members, options.slices_each, options.rounds);
  line("compute: forward, backward, update", compute);
  line("  until the first part is final", first);
  line("  update", update);
  line("    optimizer", computing(&StepTimes::optimizing));
  line("    weights taken over", computing(&StepTimes::loading));
  line("    digest of the state", computing(&StepTimes::digesting));
  line("exchange alone: the wire's bytes", samples.wire);
  line("exchange alone, measured", median(samples.exchange));
  line("step, one after the other", median(samples.apart));
  line("step, the sum awaited whole", median(samples.overlapped));
  line("  the plan's bound", whole_bound);
  line("step, overlapped with the next", ahead);
  line("  the plan's bound", bound);
  line("    the wire idle", gap);
  std::printf("norm of the mean gradient %.3g, clip %g%s\n", samples.gradient_norm, options.clip,
              options.clip > 0 && samples.gradient_norm > options.clip
                  ? ": clipped, so every sum is awaited whole"
                  : "");
  const double gradient = static_cast<double>(bench.gradient_bytes());
  const compute::SliceMemory memory = bench.memory();
  const double share =
      std::min(1.0, static_cast<double>(options.slices_each) / static_cast<double>(memory.slices));
  std::printf(
      "memory: a sum %.1f MB, layers under way %.1f MB, activations %.1f MB; one gradient a "
      "slice would be %.1f MB\n",
      gradient / 1e6, share * static_cast<double>(memory.gradient_bytes) / 1e6,
      share * static_cast<double>(memory.activation_bytes) / 1e6,
      gradient * options.slices_each / 1e6);
  if (options.require > 0 && ahead > options.require * compute) {
    std::printf("FAILED: the step is above %.2f x compute\n", options.require);
    return 1;
  }
  return 0;
}

}  // namespace

int overlap(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: gpunode-bench overlap [--gpt] [--members N] [--slices N] [--samples N] "
                 "[--layers N] [--channels N] [--context N] [--clip X] [--rounds N] "
                 "[--require RATIO]\n");
    return 2;
  }
  auto bench = Bench::open(options);
  auto samples = bench ? rounds(**bench, options) : Result<Samples>(bench.error());
  if (!samples) {
    std::fprintf(stderr, "%s\n", samples.error().message().c_str());
    return 1;
  }
  return report(**bench, options, *samples);
}

}  // namespace gpunode::bench
