#include "tools/bench/all_reduce_contenders.hpp"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <thread>

namespace gpunode::bench {

namespace {

// What bare libzmq is measured up to; with the whole vector to all, which costs N - 1 times as
// much.
constexpr std::uint64_t kBareBytes = 64 << 20, kBareDirectBytes = 256 << 10;

std::string own_program() {
  std::error_code failure;
  return std::filesystem::read_symlink("/proc/self/exe", failure).string();
}

// A program built beside this one, or nothing.
std::string beside(const std::string& name) {
  const std::string path = std::filesystem::path(own_program()).replace_filename(name).string();
  return access(path.c_str(), X_OK) == 0 ? path : std::string();
}

// As peers/gloo_all_reduce.cpp numbers them.
const std::vector<std::string> kGlooSettings = {"ring_chunked", "halving_doubling", "bcube",
                                                "ring2", "bcube2"};
constexpr std::uint32_t kGlooHalving = 1, kGlooBcube = 2;
// What spins writes without reading meanwhile: rings, and halving-doubling of longer vectors, stand
// still once the sockets' buffers are full.
constexpr std::uint64_t kGlooSpinBytes = 4 << 20;

struct MpiAlgorithm {
  const char* name;
  const char* number;  // of coll_tuned_allreduce_algorithm; null: its own choice
};
constexpr MpiAlgorithm kMpiAlgorithms[] = {{"", nullptr},
                                           {"recursive doubling", "3"},
                                           {"ring", "4"},
                                           {"segmented ring", "5"},
                                           {"rabenseifner", "6"}};

ContenderSpec mpi_spec(const std::string& program, std::uint32_t ranks,
                       const MpiAlgorithm& algorithm) {
  ContenderSpec spec;
  spec.name = "openmpi";
  if (algorithm.number) spec.name += std::string(" ") + algorithm.name;
  spec.settings = {""};
  spec.one_command = true;
  spec.command = {
      "mpirun", "--oversubscribe", "-n",    std::to_string(ranks), "--mca", "pml", "ob1", "--mca",
      "btl",    "tcp,self",        "--mca", "btl_tcp_if_include",  "lo"};
  if (geteuid() == 0) spec.command.insert(spec.command.begin() + 1, "--allow-run-as-root");
  if (algorithm.number)
    for (const char* word : {"--mca", "coll_tuned_use_dynamic_rules", "1", "--mca",
                             "coll_tuned_allreduce_algorithm", algorithm.number})
      spec.command.emplace_back(word);
  spec.command.push_back(program);
  return spec;
}

ContenderSpec own_spec(const std::string& name, const std::string& mode,
                       const Field::Options& options) {
  ContenderSpec spec;
  spec.name = name;
  spec.settings = {""};
  spec.command = {own_program(), "rank", mode,
                  std::to_string(options.network ? options.network->machines() : 0)};
  for (std::uint32_t rank = 0; options.network && rank < options.ranks; ++rank)
    spec.prefix.push_back(options.network->enter(rank));
  return spec;
}

}  // namespace

Family family_of_mode(const std::string& mode) {
  if (mode == "ring") return Family::ring;
  if (mode == "hierarchical") return Family::hierarchical;
  if (mode == "bf16") return Family::bf16;
  if (mode == "int8") return Family::int8;
  return mode == "topk" ? Family::topk : Family::exact_plain;
}

Field Field::start(const Options& options) {
  Field field;
  field.ranks_ = options.ranks;
  field.add(own_spec("gpunode exact plain", "exact-plain", options), Family::exact_plain);
  if (options.sealed) {
    field.add(own_spec("gpunode exact sealed", "exact-sealed", options), Family::exact_sealed);
    field.add(own_spec("sealing and opening alone", "crypto", options), Family::crypto);
  }
  for (const std::string& mode : options.modes)
    field.add(own_spec("gpunode " + mode + " plain", mode + "-plain", options),
              family_of_mode(mode));
  if (options.network) return field;
  if (const std::string zmq = beside("gpunode-bench-zmq"); !zmq.empty())
    field.add({"bare zmq", {"by owner", "direct"}, {zmq}, false, {}}, Family::zmq_owner);
  if (const std::string tcp = beside("gpunode-bench-tcp"); !tcp.empty())
    field.add({"bare tcp ring", {""}, {tcp}, false, {}}, Family::tcp_ring);
  if (!options.peers) return field;
  field.add_gloo();
  if (const std::string mpi = beside("gpunode-bench-mpi"); !mpi.empty())
    for (const MpiAlgorithm& algorithm : kMpiAlgorithms)
      field.add(mpi_spec(mpi, options.ranks, algorithm), Family::openmpi);
  else
    std::fprintf(stderr, "openmpi  skipped: built without libopenmpi-dev\n");
  return field;
}

void Field::add_gloo() {
  const std::string gloo = beside("gpunode-bench-gloo");
  if (gloo.empty()) {
    std::fprintf(stderr, "gloo     skipped: built without libgloo-dev\n");
    return;
  }
  add({"gloo", kGlooSettings, {gloo, "wait"}, false, {}}, Family::gloo);
  if (ranks_ > std::thread::hardware_concurrency()) return;
  add({"gloo spinning", kGlooSettings, {gloo, "spin"}, false, {}}, Family::gloo_spinning);
}

void Field::add(ContenderSpec spec, Family family) {
  auto contender = Contender::start(std::move(spec), ranks_);
  if (!contender) {
    std::fprintf(stderr, "%s\n", contender.error().message().c_str());
    return;
  }
  contenders_.emplace_back(std::move(*contender), family);
}

std::vector<Entry> Field::entries(std::uint64_t bytes) const {
  std::vector<Entry> entries;
  for (const auto& [contender, family] : contenders_) {
    if (contender->broken()) continue;
    for (std::uint32_t setting = 0; setting < contender->spec().settings.size(); ++setting) {
      Entry entry{contender.get(), setting, family, contender->label(setting)};
      if (family == Family::zmq_owner) {
        if (bytes > (setting == 1 ? kBareDirectBytes : kBareBytes)) continue;
        if (setting == 1) entry.family = Family::zmq_direct;
      }
      if (family == Family::gloo) {
        // The class bcube gives wrong sums where its base does not divide the ranks evenly.
        if (setting == kGlooBcube && (ranks_ & (ranks_ - 1)) != 0) continue;
      }
      if (family == Family::gloo_spinning) {
        if (setting != kGlooHalving || bytes > kGlooSpinBytes) continue;
        entry.family = Family::gloo;
      }
      entries.push_back(std::move(entry));
    }
  }
  return entries;
}

}  // namespace gpunode::bench
