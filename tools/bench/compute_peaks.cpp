// A device's peaks, as a program reaches them: of several large products the fastest, through the
// same backend as the models, so that on a CPU it is oneDNN's; and a copy far larger than caches.
#include <algorithm>
#include <chrono>

#include "tools/bench/compute_rate.hpp"
#include "tools/bench/compute_team.hpp"

namespace gpunode::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Product {
  std::int64_t M, N, K;
  double flops() const { return 2.0 * static_cast<double>(M * N) * static_cast<double>(K); }
  std::string text() const {
    return std::to_string(M) + "x" + std::to_string(N) + "x" + std::to_string(K);
  }
};

// Seconds of the fastest of several calls that queue and finish one piece of work.
template <class Work>
Result<double> fastest(double seconds, const Work& work) {
  double best = 0, total = 0;
  if (auto done = work(); !done) return done.error();  // warm up
  for (int call = 0; call < 3 || (total < seconds && call < 1000); ++call) {
    const auto start = Clock::now();
    if (auto done = work(); !done) return done.error();
    const double taken = std::chrono::duration<double>(Clock::now() - start).count();
    total += taken;
    if (call == 0 || taken < best) best = taken;
  }
  return best;
}

// Flops a second of all threads, each with a product of its own.
Result<double> product_rate(ops::Backend& backend, const Product& product,
                            const ComputeOptions& options) {
  tensor::BufferPool pool(backend.memory(), backend.capabilities().memory_bytes);
  std::vector<double> rates(static_cast<std::size_t>(options.threads));
  auto done = as_team(options.threads, [&](int number, const auto& meet) -> Result<void> {
    auto stream = backend.open_stream();
    if (!stream) return stream.error();
    tensor::Workspace workspace(pool);
    const auto [M, N, K] = product;
    std::vector<float> values(static_cast<std::size_t>(std::max(M, N) * K));
    for (std::size_t at = 0; at < values.size(); ++at)
      values[at] = static_cast<float>(at * 2654435761u % 1021) / 1021 - 0.5f;
    tensor::Buffer a, b, c;
    for (auto [buffer, count] : {std::pair{&a, M * K}, {&b, N * K}, {&c, M * N}})
      if (auto grown = pool.grow(*buffer, static_cast<std::size_t>(count) * 4); !grown)
        return grown;
    const auto bytes = std::as_bytes(std::span(values));
    for (auto [buffer, count] : {std::pair{&a, M * K}, {&b, N * K}})
      if (auto sent = backend.upload(**stream, bytes.first(static_cast<std::size_t>(count) * 4),
                                     buffer->data());
          !sent)
        return sent;
    const bool in_bf16 = options.precision == Precision::bf16;
    const std::size_t packed_bytes = in_bf16 ? ops::packed_bytes(K, N) : 0;
    tensor::Buffer packed;
    if (in_bf16) {
      const auto room = ops::product_workspace_bytes({.rows = M, .columns = N, .inner = K});
      if (auto grown = pool.grow(packed, packed_bytes); !grown) return grown;
      if (auto reserved = workspace.reserve(room); !reserved) return reserved;
      auto ready =
          backend.operations().pack_product(**stream, workspace,
                                            {.b = {b.as<float>(), {N, K}},
                                             .transpose_b = true,
                                             .out = {packed.as<std::byte>(), packed_bytes}});
      if (!ready) return ready;
    }
    meet();
    auto best = fastest(options.seconds, [&]() -> Result<void> {
      auto queued =
          backend.operations().matmul(**stream, workspace,
                                      {.a = {a.as<float>(), {M, K}},
                                       .b = {b.as<float>(), {N, K}},
                                       .c = {c.as<float>(), {M, N}},
                                       .transpose_b = true,
                                       .precision = options.precision,
                                       .packed_b = {packed.as<std::byte>(), packed_bytes}});
      return queued ? (*stream)->synchronise() : queued;
    });
    meet();
    if (!best) return best.error();
    rates[static_cast<std::size_t>(number)] = product.flops() / *best;
    return {};
  });
  if (!done) return done.error();
  double sum = 0;
  for (const double rate : rates) sum += rate;
  return sum;
}

// Bytes a second, read and written, of all threads together.
Result<double> copy_rate(ops::Backend& backend, const ComputeOptions& options) {
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  tensor::BufferPool pool(backend.memory(), backend.capabilities().memory_bytes);
  std::vector<double> rates(static_cast<std::size_t>(options.threads));
  auto done = as_team(options.threads, [&](int number, const auto& meet) -> Result<void> {
    auto stream = backend.open_stream();
    if (!stream) return stream.error();
    tensor::Buffer from, to;
    for (tensor::Buffer* buffer : {&from, &to}) {
      if (auto grown = pool.grow(*buffer, kBytes); !grown) return grown;
      if (auto cleared = backend.clear(**stream, buffer->data(), kBytes); !cleared) return cleared;
    }
    meet();
    auto best = fastest(options.seconds, [&]() -> Result<void> {
      auto queued = backend.copy(**stream, from.data(), to.data(), kBytes);
      return queued ? (*stream)->synchronise() : queued;
    });
    meet();
    if (!best) return best.error();
    rates[static_cast<std::size_t>(number)] = 2.0 * kBytes / *best;
    return {};
  });
  if (!done) return done.error();
  double sum = 0;
  for (const double rate : rates) sum += rate;
  return sum;
}

}  // namespace

void Peaks::raise_to(const Peaks& other) {
  if (other.flops_per_second > flops_per_second) {
    flops_per_second = other.flops_per_second;
    product = other.product;
  }
  copy_bytes_per_second = std::max(copy_bytes_per_second, other.copy_bytes_per_second);
}

Result<Peaks> measure_peaks(ops::Backend& backend, const ComputeOptions& options) {
  if (options.precision == Precision::bf16 && !backend.operations().pack_product)
    return Error{ErrorCode::unsupported, backend.device().name + " has no products in bf16"};
  std::vector<Product> products = {
      {512, 512, 512}, {1024, 1024, 1024}, {2048, 2048, 2048}, {1024, 4096, 768}};
  if (!backend.capabilities().host_accessible) products.push_back({8192, 8192, 8192});
  Peaks peaks;
  for (const Product& product : products) {
    const auto rate = product_rate(backend, product, options);
    if (!rate) return rate.error();
    peaks.raise_to({.flops_per_second = *rate, .product = product.text()});
  }
  const auto rate = copy_rate(backend, options);
  if (!rate) return rate.error();
  peaks.copy_bytes_per_second = *rate;
  return peaks;
}

}  // namespace gpunode::bench
