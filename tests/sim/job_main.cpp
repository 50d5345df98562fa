// The program sim_job: its tests, or as many fresh worlds as are asked for.
//   sim_job --sim N [--kind normal|small|inexact|swim] [--first SEED] [--grey all|NAME]
//           [--storm all|NAME|-NAME] [--broken RULE] [--trace]
// Without --kind the four take turns; without --first the first seed is drawn, and printed. --grey
// adds faults that are not usual yet (may be repeated), --broken breaks a rule of the protocol. It
// ends with the failures, what struck and what was covered; exit code 1 after a failure. One
// thread: run as many at once as there are cores.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "tests/sim/job_swarm.hpp"

namespace {

using namespace gpunode::sim;

struct Wanted {
  std::uint64_t count = 0;
  std::uint64_t first = 0;
  std::optional<Kind> kind;
  GreySet grey = usual_grey();
  StormSet storms{};
  bool stormy = false;
  std::string grey_names;
  std::string broken_rule;
  bool trace = false;
};

[[noreturn]] void refuse(const std::string& argument) {
  std::fprintf(stderr,
               "sim_job: cannot use %s\nusage: sim_job --sim N [--kind normal|small|inexact|swim] "
               "[--first SEED] [--grey all|NAME] [--storm all|NAME|-NAME] [--broken RULE] "
               "[--trace]\n",
               argument.c_str());
  std::exit(2);
}

Wanted read(int argc, char** argv) {
  Wanted wanted;
  wanted.first = std::random_device{}() * std::uint64_t{1000} + 1'000'000;
  for (int at = 1; at < argc; ++at) {
    const std::string name = argv[at];
    if (name == "--trace") {
      wanted.trace = true;
      continue;
    }
    if (at + 1 == argc) refuse(name);
    const std::string value = argv[++at];
    if (name == "--sim") {
      wanted.count = std::strtoull(value.c_str(), nullptr, 10);
    } else if (name == "--first") {
      wanted.first = std::strtoull(value.c_str(), nullptr, 10);
    } else if (name == "--kind") {
      wanted.kind = kind_named(value);
      if (!wanted.kind) refuse(value);
    } else if (name == "--broken") {
      wanted.broken_rule = value;
    } else if (name == "--storm") {
      wanted.stormy = true;
      wanted.grey_names += " --storm " + value;
      const bool off = value.starts_with('-');
      const auto storm = storm_named(off ? value.substr(1) : value);
      if (value == "all")
        wanted.storms.fill(true);
      else if (storm)
        wanted.storms[static_cast<std::size_t>(*storm)] = !off;
      else
        refuse(value);
    } else if (name == "--grey") {
      wanted.grey_names += " --grey " + value;
      const auto fault = grey_named(value);
      if (value == "all")
        wanted.grey.fill(true);
      else if (fault)
        wanted.grey[static_cast<std::size_t>(*fault)] = true;
      else
        refuse(value);
    } else {
      refuse(name);
    }
  }
  return wanted;
}

void progress(std::uint64_t done, const Wanted& wanted, std::uint64_t failed) {
  std::printf("%llu of %llu worlds, %llu failed\n", static_cast<unsigned long long>(done),
              static_cast<unsigned long long>(wanted.count),
              static_cast<unsigned long long>(failed));
  std::fflush(stdout);
}

int simulate(const Wanted& wanted) {
  std::printf("first seed %llu\n", static_cast<unsigned long long>(wanted.first));
  Coverage coverage;
  std::map<std::string, std::uint64_t> kinds_of_failures;
  std::array<std::uint64_t, kGreyCount> struck{};
  std::array<std::uint64_t, kStormCount> stormed{};
  std::map<std::string, std::uint64_t> waits;
  std::uint64_t failed = 0, finished = 0;
  for (std::uint64_t done = 0; done < wanted.count; ++done) {
    const std::uint64_t seed = wanted.first + done;
    const Kind kind = wanted.kind.value_or(kKinds[seed % std::size(kKinds)]);
    WorldOptions options = wanted.stormy ? stormy_world(kind, seed, wanted.grey, wanted.storms)
                                         : drawn_world(kind, seed, wanted.grey);
    options.coverage = &coverage;
    options.trace = wanted.trace;
    options.broken_rule = wanted.broken_rule;
    const WorldResult result = JobWorld(options).run();
    for (std::size_t one = 0; one < kStormCount; ++one)
      stormed[one] += result.storm[one] > 0 ? 1 : 0;
    finished += result.finished;
    if (result.waits)
      ++waits[result.waits_for.substr(0, result.waits_for.find_first_of("0123456789"))];
    for (std::size_t one = 0; one < kGreyCount; ++one) struck[one] += result.grey[one] > 0 ? 1 : 0;
    if (!result.failures.empty()) {
      ++failed;
      const std::string& text = result.failures.front();
      ++kinds_of_failures[text.substr(0, text.find_first_of("0123456789", 4))];
      std::printf("FAILED: %s\n  repeat with: sim_job --sim 1 --kind %s --first %llu%s --trace\n",
                  text.c_str(), std::string(to_string(kind)).c_str(),
                  static_cast<unsigned long long>(seed), wanted.grey_names.c_str());
    }
    if ((done + 1) % std::max<std::uint64_t>(1, wanted.count / 10) == 0)
      progress(done + 1, wanted, failed);
  }
  std::printf("\n%s\n\nworlds in which a fault struck:\n", coverage.table().c_str());
  for (std::size_t one = 0; one < kGreyCount; ++one)
    std::printf("  %-16s %llu\n", std::string(to_string(static_cast<Grey>(one))).c_str(),
                static_cast<unsigned long long>(struck[one]));
  for (std::size_t one = 0; one < kStormCount; ++one)
    if (stormed[one] > 0)
      std::printf("  %-16s %llu\n", std::string(to_string(static_cast<Storm>(one))).c_str(),
                  static_cast<unsigned long long>(stormed[one]));
  std::printf("finished: %llu\n", static_cast<unsigned long long>(finished));
  for (const auto& [text, count] : waits)
    std::printf("waits %llu times: %s\n", static_cast<unsigned long long>(count), text.c_str());
  for (const auto& [text, count] : kinds_of_failures)
    std::printf("failed %llu times: %s\n", static_cast<unsigned long long>(count), text.c_str());
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--sim") return simulate(read(argc, argv));
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
