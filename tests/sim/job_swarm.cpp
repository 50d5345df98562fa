#include "tests/sim/job_swarm.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/job/exchange_mode.hpp"

namespace gpunode::sim {

using namespace std::chrono_literals;

std::string_view to_string(Kind kind) {
  constexpr std::string_view kNames[] = {"normal", "small", "inexact", "swim"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::optional<Kind> kind_named(std::string_view name) {
  for (const Kind kind : kKinds)
    if (to_string(kind) == name) return kind;
  return std::nullopt;
}

std::shared_ptr<const collective::WireForms> upper_halves() {
  collective::WireForm form;
  form.bytes = [](std::size_t count) { return count * 2; };
  form.encode = [](std::span<const float> in, MutableByteView out) {
    const ByteView bytes = std::as_bytes(in);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = bytes[i / 2 * 4 + 2 + i % 2];
  };
  form.decode = [](ByteView in, std::span<float> out) {
    std::ranges::fill(out, 0.0f);
    const MutableByteView bytes = std::as_writable_bytes(out);
    for (std::size_t i = 0; i < in.size(); ++i) bytes[i / 2 * 4 + 2 + i % 2] = in[i];
  };
  return std::make_shared<const collective::WireForms>(collective::WireForms{form, form, true});
}

collective::Routing routing_of(const std::string& mode) {
  return job::facts_of(*job::parse_exchange_mode(mode)).routing;
}

WorldOptions world_of(std::uint64_t seed) {
  Rng rng(mix(seed, 99));
  WorldOptions options;
  options.seed = seed;
  const std::uint32_t slices[] = {4, 6, 8, 3, 5};
  options.model.tree = collective::Tree::of_slices(slices[rng.below(5)]);
  options.model.total_steps = 60;
  options.candidate_count = 1 + static_cast<std::uint32_t>(rng.below(5));
  options.node_count = options.candidate_count + static_cast<std::uint32_t>(rng.below(3));
  options.wanted_nodes = 1 + static_cast<std::uint32_t>(rng.below(options.node_count));
  if (rng.chance(0.5)) options.wanted_nodes = options.candidate_count;
  options.fault_time = std::chrono::milliseconds(2000 + rng.below(10000));
  const double fierce = rng.uniform();
  options.crash_rate = rng.chance(0.7) ? 0.3 * fierce : 0;
  options.cut_rate = rng.chance(0.6) ? 0.5 * fierce : 0;
  options.reset_rate = rng.chance(0.7) ? 2 * fierce : 0;
  options.pause_rate = rng.chance(0.4) ? 0.2 * fierce : 0;
  options.false_suspicion_rate = rng.chance(0.4) ? 0.3 * fierce : 0;
  options.leave_rate = rng.chance(0.2) ? 0.1 : 0;
  Rng people(mix(seed, 98));
  if (people.chance(0.4)) {
    options.witness_count = 1 + static_cast<std::uint32_t>(people.below(3));
    options.node_count += options.witness_count;
  }
  options.stop_rate = people.chance(0.15) ? 1.0 : 0;
  options.recover_rate = people.chance(0.1) ? 0.3 : 0;
  options.goes_on_alone = people.chance(0.1);
  options.loss = rng.chance(0.5) ? 0.1 * rng.uniform() : 0;
  options.repetition = rng.chance(0.5) ? 0.1 * rng.uniform() : 0;
  options.over_the_wire = rng.chance(0.2);
  options.clock_drift = 0.04;
  if (Rng(mix(seed, 96)).chance(0.2)) options.names_first = 0.5;
  if (rng.chance(0.5)) options.checkpoint_every = 7;
  options.device_link = Rng(mix(seed, 92)).chance(0.3);
  const std::uint64_t planned = rng.below(4);
  for (std::uint64_t i = 0; i < planned; ++i) {
    PlannedFault fault;
    fault.moment = static_cast<Moment>(rng.below(static_cast<std::uint64_t>(Moment::kCount)));
    fault.strike = static_cast<Strike>(rng.below(static_cast<std::uint64_t>(Strike::kCount)));
    fault.nth = 1 + static_cast<std::uint32_t>(rng.below(12));
    options.planned.push_back(fault);
  }
  return options;
}

WorldOptions small_world_of(std::uint64_t seed) {
  WorldOptions options = world_of(seed);
  Rng rng(mix(seed, 94));
  options.wanted_nodes = options.candidate_count = 1 + static_cast<std::uint32_t>(rng.below(2));
  options.node_count = options.candidate_count + 2 + static_cast<std::uint32_t>(rng.below(3));
  options.witness_count = 0;
  options.checkpoint_every = rng.chance(0.9) ? 3 + rng.below(6) : 0;
  options.model.total_steps = 90;
  if (rng.chance(0.3)) {  // members that are held for long enough to be given up
    options.pause_rate = 0.3;
    options.crash_rate *= 0.3;
  }
  return options;
}

GreySet usual_grey() {
  GreySet grey{};
  for (const Grey one : {Grey::slow_checkpoint, Grey::failed_read, Grey::removed})
    grey[static_cast<std::size_t>(one)] = true;
  return grey;
}

std::optional<Grey> grey_named(std::string_view name) {
  for (std::size_t index = 0; index < kGreyCount; ++index) {
    std::string words(to_string(static_cast<Grey>(index)));
    std::ranges::replace(words, ' ', '_');
    if (words == name) return static_cast<Grey>(index);
  }
  return std::nullopt;
}

WorldOptions drawn_world(Kind kind, std::uint64_t seed, const GreySet& grey) {
  WorldOptions options = kind == Kind::small ? small_world_of(seed) : world_of(seed);
  Rng rng(mix(seed, 93));
  const auto rate = [&](double low, double high) {
    const double drawn = low * std::pow(high / low, rng.uniform());
    return rng.chance(0.5) ? drawn : 0.0;
  };
  options.crash_rate = rate(0.01, 1);
  options.cut_rate = rate(0.02, 2);
  options.reset_rate = rate(0.05, 5);
  options.pause_rate = rate(0.01, 1);
  options.false_suspicion_rate = rate(0.01, 1);
  options.leave_rate = rate(0.01, 0.3) * (rng.chance(0.5) ? 1 : 0);
  options.stop_rate = rate(0.1, 1) * (rng.chance(0.3) ? 1 : 0);
  options.recover_rate = rate(0.03, 0.3) * (rng.chance(0.2) ? 1 : 0);
  options.loss = rate(0.001, 0.2);
  options.repetition = rate(0.001, 0.2);
  options.refused = rng.chance(0.5) ? rng.uniform() : 0.8;
  options.clock_drift = rate(0.001, 0.1);  // a tenth between two clocks at most
  options.names_first = rng.chance(0.2) ? 0.5 : 0;
  options.checkpoint_every = rng.chance(0.7) ? 1 + rng.below(15) : 0;
  if (rng.chance(0.3) && grey[static_cast<std::size_t>(Grey::large_state)]) {
    options.model.ballast_bytes = 50'000 << rng.below(3);
    options.uplink_rate = 40'000 << rng.below(4);
  }
  const GreyRates most = [] {
    GreyRates rates;
    rates.fill(0.05);
    for (const Grey share : {Grey::slow_checkpoint, Grey::failed_read, Grey::stale_hints})
      rates[static_cast<std::size_t>(share)] = 0.5;
    rates[static_cast<std::size_t>(Grey::bad_checkpoint)] = 0.1;
    for (const Grey often : {Grey::lasting_cut, Grey::late_cut, Grey::long_split})
      rates[static_cast<std::size_t>(often)] = 0.2;
    return rates;
  }();
  for (std::size_t one = 0; one < kGreyCount; ++one) {
    const double drawn = rate(most[one] / 30, most[one]);
    if (grey[one]) options.grey[one] = drawn;
  }
  if (grey[static_cast<std::size_t>(Grey::removed)] && rng.chance(0.5))
    options.checkpoints_kept = 1 + static_cast<std::uint32_t>(rng.below(4));
  if (options.grey[static_cast<std::size_t>(Grey::long_split)] > 0) {
    options.goes_on_alone = true;
    options.fault_time += 30s;
    options.model.total_steps = 2000;
    options.heal_time = 600s;
  }
  if (kind == Kind::swim && options.grey[static_cast<std::size_t>(Grey::dead_job)] > 0)
    options.grey[static_cast<std::size_t>(Grey::dead_job)] = 0;  // its Swim would have to live on
  if (kind == Kind::swim) {
    options.swim_detects = true;
    options.refused = 0.5;
  }
  if (kind == Kind::inexact || (kind == Kind::small && seed % 4 == 0)) {
    if (kind == Kind::inexact && seed % 2 == 0)
      options.routing = routing_of("ring");
    else
      options.forms = upper_halves();
  }
  options.brings_back = true;
  options.loses_outcomes = seed % 16 < 4;
  return options;
}

std::optional<Storm> storm_named(std::string_view name) {
  for (std::size_t index = 0; index < kStormCount; ++index)
    if (to_string(static_cast<Storm>(index)) == name) return static_cast<Storm>(index);
  return std::nullopt;
}

WorldOptions stormy_world(Kind kind, std::uint64_t seed, const GreySet& grey,
                          const StormSet& storms) {
  WorldOptions options = drawn_world(kind, seed, grey);
  Rng rng(mix(seed, 0x57));
  for (double* rate : {&options.crash_rate, &options.cut_rate, &options.reset_rate,
                       &options.pause_rate, &options.false_suspicion_rate, &options.leave_rate,
                       &options.stop_rate, &options.recover_rate, &options.loss})
    if (rng.chance(0.6)) *rate = 0;
  const bool is_long = rng.chance(0.5);
  double pace = 1;
  if (is_long) {
    options.fault_time = std::chrono::seconds(30 + rng.below(150));
    options.compute_low = 20ms;
    options.compute_high = std::chrono::milliseconds(100 + rng.below(700));
    options.model.total_steps = 100 + rng.below(5) * 60;
    for (double* rate : {&options.crash_rate, &options.cut_rate, &options.pause_rate,
                         &options.false_suspicion_rate, &options.leave_rate, &options.stop_rate,
                         &options.recover_rate})
      *rate *= 0.1;
    for (double& rate : options.grey) rate *= 0.3;
    pace = 0.1;
  }
  options.heal_time = 400s;
  if (rng.chance(0.25) && options.wanted_nodes > 1)
    options.min_nodes = 2 + static_cast<std::uint32_t>(rng.below(options.wanted_nodes - 1));
  options.visible_waits = true;
  options.nobody_recovers = rng.chance(0.6);
  std::vector<Storm> present;
  for (std::size_t one = 0; one < kStormCount; ++one) {
    const auto storm = static_cast<Storm>(one);
    const bool here = rng.chance(0.35);
    const double scale = std::pow(30.0, rng.uniform()) / 30;  // a thirtieth to one
    const bool lives_on = storm == Storm::full_disk;          // its Swim would have to
    if (!storms[one] || !here || (kind == Kind::swim && lives_on)) continue;
    double most = 0.3 * pace;
    if (storm == Storm::power_cut) most = 0.2 * pace;
    if (storm == Storm::lost_machines) most = 0.05 * pace;
    if (storm == Storm::late_copies) most = 0.1;
    if (storm == Storm::two_recoveries || storm == Storm::resume_from) most = 0.1 * pace;
    options.storm[one] = most * scale;
    if (storm != Storm::late_copies && storm != Storm::edge_clocks) present.push_back(storm);
  }
  if (options.storm[static_cast<std::size_t>(Storm::edge_clocks)] > 0) options.clock_drift = 0;
  for (std::uint64_t i = rng.below(5); i > 0 && !present.empty(); --i)
    options.planned_storms.push_back({static_cast<std::size_t>(rng.below(kStormMoments)),
                                      present[rng.below(present.size())],
                                      1 + static_cast<std::uint32_t>(rng.below(12)), false});
  return options;
}

}  // namespace gpunode::sim
