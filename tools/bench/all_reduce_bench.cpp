// all-reduce: gpunode's exact exchange against Gloo and OpenMPI over TCP on loopback. Every
// contender's processes are started first; then, length by length, they take turns sample by
// sample. Of each rival library the two best ways are found beforehand and stay in the contest.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

#include "tools/bench/all_reduce_contenders.hpp"
#include "tools/bench/all_reduce_report.hpp"
#include "tools/bench/benchmarks.hpp"
#include "tools/bench/flags.hpp"

namespace gpunode::bench {
namespace {

constexpr std::uint64_t kKiB = 1 << 10, kMiB = 1 << 20;
constexpr std::uint64_t kGpt2Bytes = 124'475'904ull * 4;  // the gradient of GPT-2 124M
constexpr std::size_t kWaysOfALibrary = 2;

struct Options {
  std::vector<std::uint32_t> ranks = {2, 3, 4};
  std::vector<std::uint64_t> sizes = {4 * kKiB, 256 * kKiB, 4 * kMiB, 64 * kMiB, kGpt2Bytes};
  std::size_t samples = 5;
  bool peers = true;
  bool sealed = true;
  std::vector<std::string> modes;   // besides exact
  std::uint64_t bits_a_second = 0;  // 0: loopback
  std::uint32_t machines = 0;       // on limited links; 0: each rank has its own
  bool require = false;
  std::string congestion;  // of TCP on limited links; empty: the machine's own
  std::string json;        // file; "-": standard output
};

// "4K", "64M", "498MB" (the gradient of GPT-2) or bytes; 0 if it is no length.
std::uint64_t parse_size(const std::string& word) {
  if (word == "498MB") return kGpt2Bytes;
  char* end = nullptr;
  const std::uint64_t number = std::strtoull(word.c_str(), &end, 10);
  const std::string unit = end;
  const std::uint64_t bytes = unit == "K" ? number * kKiB : unit == "M" ? number * kMiB : number;
  const bool known = unit.empty() || unit == "K" || unit == "M";
  return known && bytes % sizeof(float) == 0 ? bytes : 0;
}

bool parse(int argc, char** argv, Options& options) {
  CLI::App flags;
  std::vector<std::string> sizes;
  double megabits_a_second = 0;
  flags.add_flag("!--no-peer", options.peers);
  flags.add_flag("!--no-sealed", options.sealed);
  flags.add_flag("--require", options.require);
  flags.add_option("--ranks", options.ranks)->delimiter(',')->check(CLI::Range(2u, kMaxRanks));
  flags.add_option("--sizes", sizes)->delimiter(',');
  flags.add_option("--samples", options.samples)->check(CLI::PositiveNumber);
  flags.add_option("--rate", megabits_a_second)->check(CLI::NonNegativeNumber);
  flags.add_option("--machines", options.machines);
  flags.add_option("--mode", options.modes)->delimiter(',');
  flags.add_option("--congestion", options.congestion);
  flags.add_option("--json", options.json);
  if (!parsed(flags, argc, argv)) return false;
  options.bits_a_second = static_cast<std::uint64_t>(1e6 * megabits_a_second);
  if (!sizes.empty()) options.sizes.clear();
  std::ranges::transform(sizes, std::back_inserter(options.sizes), parse_size);
  const auto is_exact = [](const std::string& mode) {
    return family_of_mode(mode) == Family::exact_plain;
  };
  if (std::ranges::count(options.sizes, 0) > 0 || std::ranges::any_of(options.modes, is_exact))
    return false;
  return options.machines == 0 ||
         (options.bits_a_second > 0 && std::ranges::min(options.ranks) >= options.machines);
}

// Operations that are timed together.
std::uint32_t batch_of(std::uint64_t bytes) {
  if (bytes <= 16 * kKiB) return 100;
  if (bytes <= kMiB) return 20;
  return bytes <= 16 * kMiB ? 4 : 1;
}

std::uint32_t warm_up_of(std::uint64_t bytes) {
  return bytes > 64 * kMiB ? 0 : std::max(1u, batch_of(bytes) / 4);
}

void say(const Error& error) {
  std::fprintf(stderr, "left out: %s\n", error.message().c_str());
}

// Says why not, if it fails.
bool prepare(const Entry& entry, std::uint64_t bytes) {
  auto done = entry.contender->prepare(bytes / sizeof(float), entry.setting);
  if (!done) say(done.error());
  return done.has_value();
}

// The best ways of each rival library: the better of two short samples decides. One way after the
// other, as all of them together may not fit into the memory.
std::vector<Entry> best_ways(const std::vector<Entry>& rivals, std::uint64_t bytes) {
  std::map<Family, std::vector<std::pair<double, Entry>>> libraries;
  for (const Entry& entry : rivals) {
    if (!prepare(entry, bytes)) continue;
    double best = 1e300;
    for (int turn = 0; turn < 2; ++turn) {
      auto spent = entry.contender->sample(entry.setting, 1, (batch_of(bytes) + 9) / 10);
      if (spent) best = std::min(best, spent->seconds);
    }
    entry.contender->release(entry.setting);
    if (!entry.contender->broken()) libraries[entry.family].emplace_back(best, entry);
  }
  std::vector<Entry> chosen;
  for (auto& [family, ways] : libraries) {
    std::ranges::sort(ways, {}, [](const auto& way) { return way.first; });
    ways.resize(std::min(ways.size(), kWaysOfALibrary));
    for (const auto& [best, entry] : ways) chosen.push_back(entry);
  }
  return chosen;
}

Cell measure(const Field& field, const Options& options, std::uint32_t ranks, std::uint64_t bytes) {
  std::vector<Entry> entries = field.entries(bytes);
  const auto rivals = std::stable_partition(
      entries.begin(), entries.end(), [](const Entry& entry) { return !is_peer(entry.family); });
  const std::vector<Entry> best = best_ways({rivals, entries.end()}, bytes);
  entries.erase(rivals, entries.end());
  entries.insert(entries.end(), best.begin(), best.end());
  std::erase_if(entries, [&](const Entry& entry) { return !prepare(entry, bytes); });
  const std::uint32_t machines = options.machines > 0 ? options.machines : ranks;
  Cell cell{ranks, bytes, options.bits_a_second, machines, {}};
  for (const Entry& entry : entries) cell.series.push_back({entry.family, entry.label, {}, {}});
  for (std::size_t round = 0; round < options.samples; ++round) {
    for (std::size_t turn = 0; turn < entries.size(); ++turn) {
      const std::size_t place = (turn + round) % entries.size();
      const Entry& entry = entries[place];
      if (entry.contender->broken()) continue;
      auto spent = entry.contender->sample(entry.setting, warm_up_of(bytes), batch_of(bytes));
      if (!spent) {
        say(spent.error());
        continue;
      }
      cell.series[place].seconds.push_back(spent->seconds);
      cell.series[place].processor.push_back(spent->processor);
    }
  }
  for (const Entry& entry : entries) entry.contender->release(entry.setting);
  std::erase_if(cell.series,
                [&](const Series& one) { return one.seconds.size() < options.samples; });
  return cell;
}

bool write_json(const std::string& path, const std::vector<Cell>& cells) {
  const std::string text = json_of(cells);
  if (path == "-") return std::fputs(text.c_str(), stdout) >= 0;
  std::ofstream file(path);
  file << text;
  file.close();
  return static_cast<bool>(file);
}

}  // namespace

int all_reduce(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: gpunode-bench all-reduce [--ranks 2,3,4] [--sizes 4K,256K,4M,64M,498MB] "
                 "[--samples N]\n"
                 "                                [--no-peer] [--no-sealed] [--rate MBIT]\n"
                 "                                [--machines N] [--congestion NAME]\n"
                 "                                [--mode hierarchical,ring,bf16,int8,topk]\n"
                 "                                [--json FILE] [--require]\n");
    return 2;
  }
  watch_interrupts();
  std::vector<Cell> cells;
  std::size_t missed = 0;
  bool measured = true;
  for (const std::uint32_t ranks : options.ranks) {
    std::unique_ptr<RankNetwork> network;
    if (options.bits_a_second > 0) {
      auto created =
          RankNetwork::create({.ranks = ranks,
                               .machines = options.machines > 0 ? options.machines : ranks,
                               .bits_a_second = options.bits_a_second,
                               .congestion = options.congestion});
      if (!created) {
        std::printf("skipped: %s\n", created.error().message().c_str());
        return options.require ? 1 : 0;
      }
      network = std::move(*created);
    }
    const Field field = Field::start({.ranks = ranks,
                                      .peers = options.peers,
                                      .sealed = options.sealed,
                                      .modes = options.modes,
                                      .network = network.get()});
    for (const std::uint64_t bytes : options.sizes) {
      cells.push_back(measure(field, options, ranks, bytes));
      const std::vector<Ratio> ratios = ratios_of(cells.back());
      print_cell(cells.back(), ratios);
      for (const Ratio& ratio : ratios) missed += !ratio.met();
      if (interrupted()) return 130;
      measured = measured && find(cells.back(), Family::exact_plain);
    }
  }
  if (!options.json.empty() && !write_json(options.json, cells)) {
    std::fprintf(stderr, "cannot write %s\n", options.json.c_str());
    return 1;
  }
  std::printf("\n%zu bars missed\n", missed);
  return !measured || (options.require && missed > 0) ? 1 : 0;
}

}  // namespace gpunode::bench
