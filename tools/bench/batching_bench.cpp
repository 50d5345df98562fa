// Rows that come from many askers at a rate that one row at a time cannot follow: how many are answered
// together against one by one in the same run, and what became of each before its deadline.
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "actors/checkpoint/stored_model.hpp"
#include "actors/inference/row_desk.hpp"
#include "actors/inference/served_model.hpp"
#include "actors/inference/tensors.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/model/registry.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/storage/posix_file_system.hpp"
#include "tools/bench/benchmarks.hpp"
#include "tools/bench/flags.hpp"

namespace gpunode::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kFeatures = 784, kClasses = 10;
constexpr double kLeastGain = 4;  // the bar

struct Settings {
  double seconds = 5, load = 6;  // arrivals, as a multiple of what one by one is answered
  int deadline_ms = 100, threads = 2;
  bool require = false;
};

struct Counts {
  std::atomic<std::uint64_t> in_time = 0, refused = 0, late = 0, failed = 0;
};

class Served {
 public:
  explicit Served(const Settings& settings)
      : devices_(cpu::open_backend({.threads = settings.threads})) {
    char folder[] = "/tmp/gpunode-batching-XXXXXX";
    if (!mkdtemp(folder)) std::exit(1);
    checkpoint::StoredModel stored;
    stored.model = *model::make_model("mlp", {{"features", std::to_string(kFeatures)},
                                              {"classes", std::to_string(kClasses)},
                                              {"layers", "3"},
                                              {"hidden", "2048"}});
    stored.weights.resize(stored.model->parameter_count());
    stored.model->initialise(1, stored.weights);
    const std::string path = std::string(folder) + "/model";
    const auto saved = checkpoint::save_model(files_, stored, path);
    auto loaded = ServedModel::load(
        {.device = &*devices_.devices()[0], .files = &files_, .clock = &clock_, .path = path});
    std::filesystem::remove_all(folder);
    if (!saved || !loaded) {
      std::fprintf(stderr, "%s\n", (saved ? loaded.error() : saved.error()).message().c_str());
      std::exit(1);
    }
    model_ = *std::move(loaded);
    desk_.open(*model_);
    worker_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        called_.wait(false);
        called_ = false;
        while (desk_.work()) {
        }
      }
    });
  }
  ~Served() {
    worker_.request_stop();
    call();
  }
  // Told by `done`: whether it was answered, or the error.
  void ask(const inference::InferRequest& request, Time deadline, inference::RowDesk::Done done) {
    desk_.ask(request, "", deadline, std::move(done));
  }
  const Clock& clock() const { return clock_; }

 private:
  using ServedModel = inference::ServedModel;
  void call() {
    called_ = true;
    called_.notify_one();
  }

  storage::PosixFileSystem files_;
  SystemClock clock_;
  compute::DeviceRoster devices_;
  std::unique_ptr<ServedModel> model_;
  std::atomic<bool> called_ = false;
  inference::RowDesk desk_{clock_, [this] { call(); }};
  std::jthread worker_;
};

inference::InferRequest row_of(int seed) {
  std::vector<float> values(kFeatures);
  for (std::size_t i = 0; i < kFeatures; ++i)
    values[i] = std::sin(static_cast<float>(i + 17 * static_cast<std::size_t>(seed)));
  return {{inference::tensor_of("features", inference::TensorKind::fp32,
                                {1, static_cast<std::int64_t>(kFeatures)}, values)}};
}

// Rows a second, one after the other.
double one_by_one(Served& served, const Settings& settings) {
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t count = 0;
  std::chrono::duration<double> took{};
  for (; took.count() < settings.seconds; took = std::chrono::steady_clock::now() - begin) {
    std::promise<bool> told;
    served.ask(row_of(static_cast<int>(count % 64)), served.clock().now() + 60s,
               [&told](const Result<inference::InferAnswer>& answer) {
                 told.set_value(answer.has_value());
               });
    if (!told.get_future().get()) std::exit(1);
    ++count;
  }
  return static_cast<double>(count) / took.count();
}

// By chance, so many a second.
void arrivals(Served& served, const Settings& settings, double rate, Counts& counts) {
  std::vector<inference::InferRequest> rows;
  for (int i = 0; i < 64; ++i) rows.push_back(row_of(i));
  Rng rng(1);
  std::atomic<std::uint64_t> open = 0;
  const Time begin = served.clock().now();
  double due = 0;  // seconds
  for (std::uint64_t count = 0; due < settings.seconds; ++count) {
    due += -std::log(1 - rng.uniform()) / rate;
    const Time at =
        begin + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(due));
    while (served.clock().now() < at) std::this_thread::sleep_for(50us);
    const Time deadline = at + std::chrono::milliseconds(settings.deadline_ms);
    ++open;
    served.ask(rows[count % rows.size()], deadline,
               [&, deadline](const Result<inference::InferAnswer>& answer) {
                 if (!answer)
                   ++(answer.error().code == ErrorCode::internal ? counts.failed : counts.refused);
                 else
                   ++(served.clock().now() <= deadline ? counts.in_time : counts.late);
                 --open;
               });
  }
  while (open > 0) std::this_thread::sleep_for(1ms);
}

}  // namespace

int batching(int argc, char** argv) {
  Settings settings;
  CLI::App flags;
  flags.add_option("--seconds", settings.seconds);
  flags.add_option("--load", settings.load);
  flags.add_option("--deadline-ms", settings.deadline_ms);
  flags.add_option("--threads", settings.threads);
  flags.add_flag("--require", settings.require);
  if (!parsed(flags, argc, argv)) {
    std::fprintf(stderr,
                 "usage: gpunode-bench batching [--seconds S] [--load X] [--deadline-ms N] "
                 "[--threads N] [--require]\n");
    return 2;
  }
  Served served(settings);
  one_by_one(served, {.seconds = 0.3});  // warms up
  const double alone = one_by_one(served, settings);
  Counts counts;
  arrivals(served, settings, settings.load * alone, counts);
  const double together = static_cast<double>(counts.in_time) / settings.seconds;
  const auto late = static_cast<double>(counts.late);
  const auto all = late + static_cast<double>(counts.in_time + counts.refused + counts.failed);
  std::printf("one by one %.0f rows/s; of %.0f rows/s that came, %.0f were answered within %d ms\n",
              alone, all / settings.seconds, together, settings.deadline_ms);
  std::printf(
      "%.2f x one by one (bar %.0f); refused before anything was computed %.1f %%, late "
      "%.3f %%\n",
      together / alone, kLeastGain, 100 * static_cast<double>(counts.refused) / all,
      100 * late / all);
  const bool kept = together >= kLeastGain * alone && late <= 0.001 * all && counts.failed == 0;
  return kept || !settings.require ? 0 : 1;
}

}  // namespace gpunode::bench
