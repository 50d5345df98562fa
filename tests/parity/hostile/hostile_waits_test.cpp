// The list of every wait in the product that touches a device. Each is removed, alone, and the hostile
// device must find what it was for: a wait that nothing misses is either needless, and does not
// belong into the product, or guards something that the device does not see. A wait that is not in
// the list fails, whether it is met in a course or only stands in a source.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "kernels/cpu/cpu_backend.hpp"
#include "tests/parity/hostile/hostile_backend.hpp"
#include "tests/parity/hostile/training_course.hpp"

namespace gpunode::compute {
namespace {

using Devices = TrainingCourse::Devices;
using How = TrainingCourse::How;

constexpr std::uint64_t kSeeds = 6;  // in which a removed wait must show, in one course at least

struct Listed {
  const char* name;   // the function it stands in
  const char* file;   // of the source
  const char* keeps;  // what it is for
};
const Listed kWaits[] = {
    {"model::GraphPart::run", "kernels/model/detail/graph_decoder.cpp",
     "scores that the host samples from"},
    {"model::GraphProgram::place_constants", "kernels/model/detail/graph_program.cpp",
     "constants before the first stage, on other streams"},
    {"model::PackedWeights::make_ready", "kernels/model/detail/packed_weights.cpp",
     "a weight in bf16 before the products of other streams"},
    {"model::GraphProgram::follow", "kernels/model/detail/graph_program.cpp",
     "a slice's stage before its next one, on another stream"},
    {"model::GraphProgram::settle", "kernels/model/detail/graph_program.cpp",
     "gradients that nobody summed, and memory that is used again"},
    {"model::GraphProgram::values_of", "kernels/model/detail/graph_forward.cpp",
     "losses and scores that the host adds up"},
    {"model::GraphProgram::gradient", "kernels/model/detail/graph_program.cpp",
     "a whole gradient before what is done with it, on another stream"},
    {"model::Device::begin", "kernels/model/fingerprint.cpp",
     "weights before the gradient, on another stream"},
    {"model::compute_fingerprint", "kernels/model/fingerprint.cpp", "what the host digests"},
    {"ops::serial", "kernels/ops/lane.cpp", "squares that the host adds up, on one lane"},
    {"ops::Staging::next_piece", "kernels/ops/staging.cpp",
     "a piece of page-locked memory before it is used again"},
    {"ops::Staging::download", "kernels/ops/staging.cpp", "what the host sends or stores"},
    {"ops::place", "kernels/ops/lane.cpp",
     "served weights before the first answer, on another stream"},
    {"compute::Device::follow", "actors/compute/device.hpp",
     "a slice's gradient before it is summed, on another stream"},
    {"compute::Device::spread", "actors/compute/device.cpp",
     "blocks of all lanes before what any of them does next"},
    {"compute::Device::sum", "actors/compute/device.cpp",
     "parts of a sum before they are overwritten, and it is sent"},
    {"compute::Device::add", "actors/compute/device.cpp",
     "the sum of two devices before it is sent"},
    {"compute::Device::write", "actors/compute/device.cpp",
     "what came from the host, and zero moments, before other lanes use it"},
    {"compute::Device::digest_blocks", "actors/compute/device.cpp", "digests that the host joins"},
};

struct Route {
  std::string kind = "gpt";
  std::string mode = "exact";
  std::uint32_t slices = 4;
  std::uint32_t batch = slices + 2;  // fewer than slices: some are empty
  std::size_t devices = 1;
  bool follows = false;  // computes nothing itself
  Precision precision = Precision::fp32;
  bool keeps = false;  // computes a slice a worker at once, and keeps sums that nobody wants yet
};
// Together they meet every wait.
const Route kRoutes[] = {{.batch = 3},       {.kind = "llama"},
                         {.kind = "resnet"}, {.mode = "local"},
                         {.follows = true},  {.precision = Precision::bf16},
                         {.keeps = true},    {.slices = 13, .devices = 2}};

// With several devices the second is drained in mid-step.
Result<Course> take(const Route& route, const Devices& devices, const How& how) {
  TrainingCourse course(route.kind, route.slices, route.mode, route.precision);
  course.spec.train.batch = route.batch;
  course.nodes = {{1, 0}};
  for (std::uint32_t slice = 2; slice < route.slices; ++slice) course.nodes.push_back({0, slice});
  if (route.keeps) course.nodes = {{2, 0}};
  if (route.keeps) course.slice_budget_bytes = 1;
  std::atomic<bool> drained = false;
  course.on_told = [&](Trainer& trainer, const SumRange&) {
    if (devices.size() < 2 || trainer.step() != 1 || drained.exchange(true)) return;
    devices[1]->drain();
  };
  return route.follows ? course.follow(devices, how) : course.take(devices, how);
}

const Course& wanted(const Route& route) {
  static std::map<const Route*, Course> known;
  if (const auto found = known.find(&route); found != known.end()) return found->second;
  const auto host = cpu::open_backend();
  NodeDevice device("cpu", *host);
  auto course = take(route, {&device}, {});
  EXPECT_TRUE(course) << course.error().message();
  return known[&route] = course ? *std::move(course) : Course{};
}

struct Tried {
  std::string shown;  // empty: nothing was amiss
  hostile::Report report;
};
Tried attempt(const Route& route, std::uint64_t seed, const std::string& removed) {
  std::vector<std::unique_ptr<hostile::HostileBackend>> opened;
  std::vector<std::unique_ptr<NodeDevice>> of_the_node;
  Devices devices;
  for (std::size_t at = 0; at < route.devices; ++at) {
    const bool late = (seed + at) % 2 == 0;
    opened.push_back(std::move(*hostile::open_backend(
        {.seed = 8 * seed + at,
         .pace = late ? hostile::Pace::when_waited_for : hostile::Pace::random,
         .removed_wait = removed})));
    of_the_node.push_back(std::make_unique<NodeDevice>("device", *opened.back()));
    devices.push_back(of_the_node.back().get());
  }
  const Course& right = wanted(route);
  const auto found = take(route, devices, {1 + static_cast<int>(seed % 2), seed % 3 == 1});
  Tried tried{{}, opened.front()->report()};
  for (const auto& device : opened)
    if (tried.shown.empty()) tried.shown = device->report().first_error;
  if (tried.shown.empty() && !found) tried.shown = "fails: " + found.error().message();
  if (tried.shown.empty() && !(*found == right)) tried.shown = "other bits";
  return tried;
}

class RemovedWait : public ::testing::TestWithParam<Listed> {};

TEST_P(RemovedWait, is_found) {
  std::string shown;
  for (std::uint64_t seed = 1; seed <= kSeeds && shown.empty(); ++seed)
    for (const Route& route : kRoutes)
      if (shown.empty()) shown = attempt(route, seed, GetParam().name).shown;
  EXPECT_NE(shown, "") << "nothing misses the wait of " << GetParam().name << " in "
                       << GetParam().file << ", said to be for: " << GetParam().keeps;
}

INSTANTIATE_TEST_SUITE_P(All, RemovedWait, ::testing::ValuesIn(kWaits), [](const auto& given) {
  return std::regex_replace(std::string(given.param.name), std::regex("::"), "_");
});

TEST(Waits, are_all_met_and_all_in_the_list) {
  std::set<std::string> listed, met;
  for (const Listed& one : kWaits) listed.insert(one.name);
  for (const Route& route : kRoutes) {
    const Tried tried = attempt(route, 1, "");
    EXPECT_EQ(tried.shown, "");
    for (const auto* waits : {&tried.report.host_waits, &tried.report.stream_waits})
      for (const auto& [name, wait] : *waits) {
        met.insert(name);
        EXPECT_TRUE(listed.contains(name)) << name << " in " << wait.file;
        EXPECT_EQ(wait.lines.size(), 1u) << name << ": two waits in one function have one name";
      }
  }
  EXPECT_EQ(met, listed);
}

// How often the host stands still in one step of four slices: for each slice's loss, for each stage's
// sum and its way to the host, and a few times while the step is applied. Never for a stage of a
// slice, of which there are more.
TEST(Waits, of_a_step_are_few) {
  TrainingCourse course("gpt", 4);
  const auto device = std::move(*hostile::open_backend({.staging_piece_bytes = 1 << 20}));
  NodeDevice of_the_node("device", *device);
  const Devices devices = {&of_the_node};
  auto trainer = course.open_trainer(devices, 1);
  ASSERT_TRUE(trainer) << trainer.error().message();
  std::vector<float> total((*trainer)->element_count());
  std::vector<std::vector<float>> sums;
  const std::uint64_t before = device->report().host_wait_count();
  ASSERT_TRUE(course.compute(**trainer, devices, total, sums));
  const std::uint64_t computed = device->report().host_wait_count();
  ASSERT_TRUE((*trainer)->apply(1, collective::SharedFloats::from(total)));
  const std::uint64_t applied = device->report().host_wait_count();
  EXPECT_LE(computed - before, 13u);
  EXPECT_LE(applied - computed, 7u);
}

// Also those that no course meets.
TEST(Waits, of_the_sources_are_all_in_the_list) {
  namespace fs = std::filesystem;
  const std::regex wait(
      R"(synchronise\((?!site|WaitSite)|\b(lane|own|lane\(\w+\))\.finish\(\)|backend\w*(\(\))?\.wait\()");
  std::multiset<std::string> listed, found;
  for (const Listed& one : kWaits) listed.insert(one.file);
  listed.insert("kernels/model/detail/graph_encoder.cpp");  // no training meets it
  for (const char* folder : {"kernels/graph", "kernels/model", "kernels/ops", "actors"})
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(GPUNODE_SOURCE_DIR) / folder)) {
      std::stringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      const std::string source = text.str();
      const auto name = fs::relative(entry.path(), GPUNODE_SOURCE_DIR).string();
      const auto count =
          std::distance(std::sregex_iterator(source.begin(), source.end(), wait), {});
      for (std::ptrdiff_t at = 0; at < count; ++at) found.insert(name);
    }
  EXPECT_EQ(found, listed);
}

}  // namespace
}  // namespace gpunode::compute
