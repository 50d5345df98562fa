// Products of the two GPTs' shapes and of larger ones: the backend's against the fastest way that
// oneDNN has for them, each on threads of their own that multiply at the same time. Both begin with
// the same float32 factors; a weight is made ready once for four products, as for a step's slices.
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/tensor/buffer.hpp"
#include "tools/bench/benchmarks.hpp"
#include "tools/bench/compute_team.hpp"
#include "tools/bench/flags.hpp"
#include "tools/bench/median.hpp"

namespace gpunode::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Type = dnnl::memory::data_type;
using Layout = dnnl::memory::format_tag;

struct Options {
  double seconds = 0.2;  // of a round
  int threads = 2;
  int rounds = 5;
  bool require = false;
};

// What a product is in a model: y = x w^T, its gradient for x, its gradient for w.
enum class Use : std::uint8_t { forward, input, weight };

struct Case {
  Use use;
  std::int64_t M, N, K;
  double flops() const { return 2.0 * static_cast<double>(M * N) * static_cast<double>(K); }
  std::string text() const {
    const char* name = use == Use::forward ? "y = x w'" : use == Use::input ? "dx = dy w" : "dw";
    return std::to_string(M) + "x" + std::to_string(N) + "x" + std::to_string(K) + " " + name;
  }
};

constexpr Case kCases[] = {
    {Use::forward, 1024, 1024, 1024}, {Use::forward, 256, 3072, 768}, {Use::forward, 64, 3072, 768},
    {Use::forward, 64, 768, 3072},    {Use::input, 64, 768, 3072},    {Use::input, 64, 3072, 768},
    {Use::weight, 3072, 768, 64},     {Use::forward, 192, 512, 128},  {Use::input, 192, 128, 512},
    {Use::weight, 512, 128, 192},
};

constexpr double kBar = 0.95;  // of oneDNN's best

// The right factor is another one after each step's slices, as it is from layer to layer.
constexpr std::size_t kWeights = 8, kSlices = 4;

// One way to multiply: the thread's own memory, and a call.
using Call = std::function<Result<void>(std::size_t number)>;

std::vector<float> values(std::int64_t count) {
  std::vector<float> made(static_cast<std::size_t>(count));
  for (std::size_t at = 0; at < made.size(); ++at)
    made[at] = static_cast<float>(at * 2654435761u % 1021) / 1021 - 0.5f;
  return made;
}

struct Factors {
  explicit Factors(const Case& of)
      : a(values(of.M * of.K)), c(static_cast<std::size_t>(of.M * of.N)) {
    for (std::size_t each = 0; each < kWeights; ++each) b.push_back(values(of.N * of.K));
  }
  // Of a call's right factor.
  std::size_t at(std::size_t number) const { return number / kSlices % b.size(); }
  std::vector<float> a, c;
  std::vector<std::vector<float>> b;
};

// Ours, as the graph's operations call it.
class Ours {
 public:
  Ours(const Case& of, Precision precision, ops::Backend& backend)
      : case_(of),
        precision_(precision),
        backend_(backend),
        factors_(of),
        pool_(backend.memory(), backend.capabilities().memory_bytes),
        workspace_(pool_) {}

  Result<void> open() {
    auto stream = backend_.open_stream();
    if (!stream) return stream.error();
    stream_ = std::move(*stream);
    const auto [use, M, N, K] = case_;
    const auto bytes = ops::product_workspace_bytes({.rows = M, .columns = N, .inner = K});
    if (auto done = workspace_.reserve(bytes); !done) return done;
    if (precision_ == Precision::fp32 || use == Use::weight) return {};
    auto memory = pool_.take(ops::packed_bytes(K, N));
    if (!memory) return memory.error();
    packed_ = std::move(*memory);
    return {};
  }

  Result<void> multiply(std::size_t number) {
    const auto [use, M, N, K] = case_;
    const auto& weight = factors_.b[factors_.at(number)];
    const std::size_t bytes = packed_.size() == 0 ? 0 : ops::packed_bytes(K, N);
    const MutableByteView packed(packed_.as<std::byte>(), bytes);
    if (bytes > 0 && number % kSlices == 0) {
      auto done = backend_.operations().pack_product(
          *stream_, workspace_,
          {.b = right(weight), .transpose_b = use == Use::forward, .out = packed});
      if (!done) return done;
    }
    const tensor::Shape left = use == Use::weight ? tensor::Shape{K, M} : tensor::Shape{M, K};
    return backend_.operations().matmul(*stream_, workspace_,
                                        {.a = {factors_.a.data(), left},
                                         .b = right(weight),
                                         .c = {factors_.c.data(), {M, N}},
                                         .transpose_a = use == Use::weight,
                                         .transpose_b = use == Use::forward,
                                         .precision = precision_,
                                         .packed_b = packed});
  }

 private:
  tensor::ConstTensor right(const std::vector<float>& weight) const {
    if (case_.use == Use::forward) return {weight.data(), {case_.N, case_.K}};
    return {weight.data(), {case_.K, case_.N}};
  }

  Case case_;
  Precision precision_;
  ops::Backend& backend_;
  Factors factors_;
  tensor::BufferPool pool_;
  tensor::Workspace workspace_;
  std::unique_ptr<tensor::Stream> stream_;
  tensor::Buffer packed_;  // the weight in use; of no size where products take it as it lies
};

// oneDNN's sgemm: factors as they lie.
class Sgemm {
 public:
  explicit Sgemm(const Case& of) : case_(of), factors_(of) {}
  Result<void> multiply(std::size_t number) {
    const auto [use, M, N, K] = case_;
    const bool turned = use == Use::weight, along = use == Use::forward;
    const dnnl_status_t status = dnnl_sgemm(
        turned ? 'T' : 'N', along ? 'T' : 'N', M, N, K, 1, factors_.a.data(), turned ? M : K,
        factors_.b[factors_.at(number)].data(), along ? K : N, 0, factors_.c.data(), N);
    if (status != dnnl_success) return {ErrorCode::internal, "dnnl_sgemm failed"};
    return {};
  }

 private:
  Case case_;
  Factors factors_;
};

// oneDNN's matmul with factors laid out as it asks for: converted by it, the weight once for a step's
// slices. In a gradient of weights both are new in each call.
class Matmul {
 public:
  Matmul(const Case& of, Type type) : factors_(of), convert_right_each_(of.use == Use::weight) {
    const auto [use, M, N, K] = of;
    const bool rounds = type != Type::f32;
    const Layout across = use == Use::weight ? Layout::ba : Layout::ab;
    const Desc left({M, K}, type, across), out({M, N}, Type::f32, Layout::ab);
    // In float32 a right factor that is used once is read as it lies.
    const bool as_it_lies = use == Use::weight && !rounds;
    const Desc right({K, N}, type, as_it_lies ? Layout::ab : Layout::any);
    const dnnl::matmul::primitive_desc wanted(dnnl::matmul::desc(left, right, out), engine_);
    product_ = dnnl::matmul(wanted);
    given_left_ = given({{M, K}, Type::f32, across}, factors_.a);
    const Layout along = use == Use::forward ? Layout::ba : Layout::ab;
    for (const auto& each : factors_.b)
      given_right_.push_back(given({{K, N}, Type::f32, along}, each));
    left_ = rounds ? dnnl::memory(left, engine_) : given_left_;
    right_ = as_it_lies ? given_right_.front() : dnnl::memory(wanted.weights_desc(), engine_);
    if (rounds) convert_left_ = dnnl::reorder(given_left_, left_);
    if (!as_it_lies) convert_right_ = dnnl::reorder(given_right_.front(), right_);
    out_ = given(wanted.dst_desc(), factors_.c);
  }
  Result<void> multiply(std::size_t number) {
    dnnl::memory& from = given_right_[factors_.at(number)];
    if (convert_left_) convert_left_.execute(stream_, given_left_, left_);
    if (convert_right_ && (convert_right_each_ || number % kSlices == 0))
      convert_right_.execute(stream_, from, right_);
    product_.execute(stream_, {{DNNL_ARG_SRC, left_},
                               {DNNL_ARG_WEIGHTS, convert_right_ ? right_ : from},
                               {DNNL_ARG_DST, out_}});
    return {};
  }

 private:
  using Desc = dnnl::memory::desc;
  dnnl::memory given(const Desc& as, const std::vector<float>& values) {
    return {as, engine_, const_cast<float*>(values.data())};
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  Factors factors_;
  bool convert_right_each_;
  dnnl::matmul product_;
  dnnl::reorder convert_left_, convert_right_;  // of no use where null
  dnnl::memory given_left_, left_, right_, out_;
  std::vector<dnnl::memory> given_right_;
};

struct Way {
  std::string name;
  std::vector<double> rates;  // flops a second of all threads, a round each
};

// Rounds of all ways in turns, each thread with memory of its own.
Result<std::vector<Way>> measure(const Case& of, Precision precision, ops::Backend& backend,
                                 const Options& options) {
  std::vector<Way> ways = {{"gpunode", {}}, {"oneDNN matmul", {}}};
  if (precision == Precision::fp32) ways.push_back({"oneDNN sgemm", {}});
  std::vector<std::vector<double>> sums(
      ways.size(), std::vector<double>(static_cast<std::size_t>(options.rounds)));
  std::mutex mutex;
  auto done = as_team(options.threads, [&](int, const auto& meet) -> Result<void> {
    Ours ours(of, precision, backend);
    if (auto opened = ours.open(); !opened) return opened;
    if (auto warm = ours.multiply(0); !warm) return warm;  // tells OpenMP that threads work alone
    Matmul matmul(of, precision == Precision::bf16 ? Type::bf16 : Type::f32);
    Sgemm sgemm(of);
    const std::vector<Call> calls = {[&](std::size_t at) { return ours.multiply(at); },
                                     [&](std::size_t at) { return matmul.multiply(at); },
                                     [&](std::size_t at) { return sgemm.multiply(at); }};
    for (std::size_t round = 0; round < sums[0].size(); ++round)
      for (std::size_t way = 0; way < sums.size(); ++way) {
        for (std::size_t at = 0; at < kSlices; ++at)
          if (auto warm = calls[way](at); !warm) return warm;
        meet();
        const auto start = Clock::now();
        double elapsed = 0;
        std::size_t number = 0;
        while (elapsed < options.seconds) {
          if (auto called = calls[way](number++); !called) return called;
          elapsed = std::chrono::duration<double>(Clock::now() - start).count();
        }
        meet();
        std::lock_guard lock(mutex);
        sums[way][round] += static_cast<double>(number) * of.flops() / elapsed;
      }
    return {};
  });
  if (!done) return done.error();
  for (std::size_t way = 0; way < ways.size(); ++way) ways[way].rates = std::move(sums[way]);
  return ways;
}

}  // namespace

int products(int argc, char** argv) {
  Options options;
  CLI::App flags;
  flags.add_option("--seconds", options.seconds)->check(CLI::PositiveNumber);
  flags.add_option("--threads", options.threads)->check(CLI::PositiveNumber);
  flags.add_option("--rounds", options.rounds)->check(CLI::PositiveNumber);
  flags.add_flag("--require", options.require);
  if (!parsed(flags, argc, argv)) {
    std::fprintf(stderr,
                 "usage: gpunode-bench products [--seconds S] [--threads N] [--rounds R] "
                 "[--require]\n");
    return 2;
  }
  auto backend = cpu::open_backend();
  std::printf("GFLOP/s of %d threads, median of %d rounds, %s (%s); bar %.2f of oneDNN's best\n",
              options.threads, options.rounds, backend->capabilities().instruction_set.c_str(),
              backend->capabilities().library.c_str(), kBar);
  bool held = true;
  for (const Precision precision : {Precision::fp32, Precision::bf16})
    for (const Case& one : kCases) {
      const auto ways = measure(one, precision, *backend, options);
      if (!ways) {
        std::fprintf(stderr, "%s\n", ways.error().message().c_str());
        return 1;
      }
      std::string line;
      double best = 0;
      for (const Way& way : *ways) {
        const double rate = median(way.rates);
        if (&way != ways->data()) best = std::max(best, rate);
        line += "  " + way.name + " " + std::to_string(std::lround(rate / 1e9));
      }
      const double ratio = median(ways->front().rates) / best;
      held = held && ratio >= kBar;
      std::printf("%-24s %s %s  ratio %.2f%s\n", one.text().c_str(),
                  std::string(to_string(precision)).c_str(), line.c_str(), ratio,
                  ratio < kBar ? " BELOW" : "");
      std::fflush(stdout);
    }
  return options.require && !held ? 1 : 0;
}

}  // namespace gpunode::bench
