#include "tools/bench/all_reduce_report.hpp"

#include "runtime/collective/exchange_message.hpp"
#include "tools/bench/median.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>

#include <nlohmann/json.hpp>

namespace gpunode::bench {

namespace {

constexpr std::uint64_t kKiB = 1 << 10, kMiB = 1 << 20;
constexpr double kSealedBar = 1.15;
constexpr double kZmqBar = 3;
constexpr double kPlanBar = 1.25;  // 80 % of the bound

// Seconds of one all-reduce of PCCL up to 4 MiB, measured on another day (it needs no network
// speed to be judged: its time is the same for each of these lengths); ours: at most a twentieth.
double pccl_seconds(std::uint32_t ranks) {
  return ranks <= 2 ? 0.045 : ranks == 3 ? 0.052 : 0.064;
}

std::optional<double> peer_bar(std::uint32_t ranks, std::uint64_t bytes) {
  if (bytes == 4 * kMiB) return ranks == 2 ? 1.3 : 1.0;
  if (bytes == 64 * kMiB) return 0.7;
  if (bytes > 64 * kMiB) return 0.8;
  return std::nullopt;
}

const Series* best_peer(const Cell& cell) {
  const Series* best = nullptr;
  for (const Series& series : cell.series)
    if (is_peer(series.family) && (!best || median(series.seconds) < median(best->seconds)))
      best = &series;
  return best;
}

// Ratio of medians, and the range of the rounds' own ratios.
Ratio ratio_of(std::string what, const std::vector<double>& ours, const std::vector<double>& theirs,
               std::optional<double> bar) {
  Ratio ratio{std::move(what), median(ours) / median(theirs), 1e300, 0, bar};
  for (std::size_t round = 0; round < std::min(ours.size(), theirs.size()); ++round) {
    ratio.low = std::min(ratio.low, ours[round] / theirs[round]);
    ratio.high = std::max(ratio.high, ours[round] / theirs[round]);
  }
  return ratio;
}

}  // namespace

const Series* find(const Cell& cell, Family family) {
  const auto found = std::ranges::find(cell.series, family, &Series::family);
  return found == cell.series.end() ? nullptr : &*found;
}

std::string size_text(std::uint64_t bytes) {
  if (bytes % kMiB == 0) return std::to_string(bytes / kMiB) + " MiB";
  if (bytes < kMiB) return std::to_string(bytes / kKiB) + " KiB";
  return std::to_string((bytes + 500'000) / 1'000'000) + " MB";
}

double plan_seconds(const Cell& cell, bool grouped) {
  const auto layout = collective::ChunkLayout::of(cell.bytes / sizeof(float));
  std::vector<std::uint64_t> ranks_of(cell.machines), sent(cell.machines);
  const auto machine_of = [&](std::uint32_t rank) {
    return RankNetwork::machine_of(rank, cell.ranks, cell.machines);
  };
  for (std::uint32_t rank = 0; rank < cell.ranks; ++rank) ++ranks_of[machine_of(rank)];
  // A balanced plan: one partial sum a member, chunk c is owned by member c mod N.
  for (std::uint32_t chunk = 0; chunk < layout.chunk_count(); ++chunk) {
    const std::uint32_t home = machine_of(chunk % cell.ranks);
    for (std::uint32_t machine = 0; machine < cell.machines; ++machine) {
      if (machine == home) continue;
      const std::uint64_t bytes =
          layout.size(chunk) * sizeof(float) * (grouped ? 1 : ranks_of[machine]);
      sent[machine] += bytes;
      sent[home] += bytes;
    }
  }
  return 8.0 * static_cast<double>(*std::max_element(sent.begin(), sent.end())) /
         static_cast<double>(cell.bits_a_second);
}

std::vector<Ratio> ratios_of(const Cell& cell) {
  const Series* plain = find(cell, Family::exact_plain);
  if (!plain) return {};
  std::vector<Ratio> ratios;
  const auto from = [&](std::uint64_t bytes, std::optional<double> bar) {
    return cell.bytes >= bytes ? bar : std::nullopt;
  };
  const auto hold = [&](const std::string& what, const Series& ours, const Series& theirs,
                        std::optional<double> bar) {
    ratios.push_back(ratio_of(what, ours.seconds, theirs.seconds, bar));
  };
  const auto hold_to = [&](const std::string& what, const Series& ours, double seconds,
                           std::optional<double> bar) {
    ratios.push_back(ratio_of(what, ours.seconds, std::vector(ours.seconds.size(), seconds), bar));
  };
  const auto zmq_bar = cell.bytes <= 256 * kKiB ? std::optional(kZmqBar) : std::nullopt;
  for (const auto& [rival, bar] :
       {std::pair(best_peer(cell), peer_bar(cell.ranks, cell.bytes)),
        std::pair(find(cell, Family::zmq_owner), zmq_bar),
        std::pair(find(cell, Family::tcp_ring), std::optional<double>()),
        std::pair(find(cell, Family::zmq_direct), std::optional<double>())})
    if (rival) hold("exact plain / " + rival->label, *plain, *rival, bar);
  const bool limited = cell.bits_a_second > 0;
  if (limited)
    hold_to("exact plain / the plan's bound on this link", *plain, plan_seconds(cell),
            from(4 * kMiB, kPlanBar));
  if (const Series* grouped = find(cell, Family::hierarchical)) {
    hold("hierarchical / exact plain", *grouped, *plain, std::nullopt);
    if (limited)
      hold_to("hierarchical / its plan's bound on this link", *grouped, plan_seconds(cell, true),
              from(4 * kMiB, kPlanBar));
  }
  if (const Series* ring = find(cell, Family::ring))
    hold("ring / exact plain", *ring, *plain, std::nullopt);
  for (const auto& [family, bar] : {std::pair(Family::bf16, std::optional(1 / 1.7)),
                                    std::pair(Family::int8, std::optional(1 / 3.0)),
                                    std::pair(Family::topk, std::optional<double>())})
    if (const Series* mode = find(cell, family); limited && mode)
      hold(mode->label + " / exact plain", *mode, *plain, from(4 * kMiB, bar));
  if (!limited && cell.bytes <= 4 * kMiB)
    hold_to("exact plain / PCCL (of another day)", *plain, pccl_seconds(cell.ranks), 0.05);
  const Series* sealed = find(cell, Family::exact_sealed);
  const Series* crypto = find(cell, Family::crypto);
  if (sealed && crypto) {
    Series sums = *plain;
    std::ranges::transform(sums.seconds, crypto->seconds, sums.seconds.begin(), std::plus());
    hold("exact sealed / (exact plain + sealing and opening)", *sealed, sums,
         from(64 * kMiB, kSealedBar));
  }
  return ratios;
}

void print_cell(const Cell& cell, const std::vector<Ratio>& ratios) {
  std::printf("\n%u ranks, %s", cell.ranks, size_text(cell.bytes).c_str());
  if (cell.bits_a_second > 0)
    std::printf(", %u machines of %.0f Mbit/s; the plan needs %.3f ms", cell.machines,
                1e-6 * static_cast<double>(cell.bits_a_second), 1e3 * plan_seconds(cell));
  std::printf("\n");
  for (const Series& series : cell.series) {
    const auto [low, high] = std::minmax_element(series.seconds.begin(), series.seconds.end());
    const double middle = median(series.seconds);
    std::printf("  %-34s %10.3f ms [%.3f-%.3f]  %.3f s/GB; processor %.3f ms\n",
                series.label.c_str(), 1e3 * middle, 1e3 * *low, 1e3 * *high,
                1e9 * middle / static_cast<double>(cell.bytes), 1e3 * median(series.processor));
  }
  for (const Ratio& ratio : ratios) {
    std::printf("  %.2f [%.2f-%.2f]  %s", ratio.median, ratio.low, ratio.high, ratio.what.c_str());
    if (ratio.bar) std::printf("; at most %.2f: %s", *ratio.bar, ratio.met() ? "met" : "MISSED");
    std::printf("\n");
  }
  std::fflush(stdout);
}

std::string json_of(const std::vector<Cell>& cells) {
  nlohmann::json all = nlohmann::json::array();
  for (const Cell& cell : cells) {
    nlohmann::json one{{"ranks", cell.ranks},
                       {"bytes", cell.bytes},
                       {"bits_a_second", cell.bits_a_second},
                       {"machines", cell.machines}};
    for (const Series& series : cell.series)
      one["series"].push_back({{"label", series.label},
                               {"median_s", median(series.seconds)},
                               {"samples_s", series.seconds},
                               {"processor_s", series.processor}});
    for (const Ratio& ratio : ratios_of(cell)) {
      nlohmann::json line{{"what", ratio.what},
                          {"median", ratio.median},
                          {"low", ratio.low},
                          {"high", ratio.high},
                          {"met", ratio.met()}};
      if (ratio.bar) line["bar"] = *ratio.bar;
      one["ratios"].push_back(std::move(line));
    }
    all.push_back(std::move(one));
  }
  return all.dump(2) + "\n";
}

}  // namespace gpunode::bench
