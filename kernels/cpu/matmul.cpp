// Matrix products through oneDNN's sgemm. oneDNN's result depends on its thread count, so each of
// our threads tells OpenMP once that it works alone; parallelism comes from slices and blocks
// above.
#include "kernels/ops/matmul.hpp"

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>

#include "kernels/cpu/operations.hpp"

namespace gpunode::cpu {
namespace {

// The OpenMP runtime is looked up rather than linked: it is oneDNN's, whichever that was built
// with.
void work_alone() {
  thread_local const bool alone = [] {
    using SetThreads = void (*)(int);
    if (auto set = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"))) set(1);
    return true;
  }();
  static_cast<void>(alone);
}

}  // namespace

Result<void> matmul(tensor::Stream&, tensor::Workspace&, const ops::MatmulArgs& args) {
  work_alone();
  const std::int64_t rows = args.transpose_a ? args.a.shape[1] : args.a.shape[0];
  const std::int64_t inner = args.transpose_a ? args.a.shape[0] : args.a.shape[1];
  const std::int64_t columns = args.transpose_b ? args.b.shape[0] : args.b.shape[1];
  GPUNODE_CHECK((args.transpose_b ? args.b.shape[1] : args.b.shape[0]) == inner &&
                    args.c.element_count() == rows * columns,
                "matmul: " + args.a.shape.text() + " x " + args.b.shape.text() + " -> " +
                    args.c.shape.text());
  const dnnl_status_t status =
      dnnl_sgemm(args.transpose_a ? 'T' : 'N', args.transpose_b ? 'T' : 'N', rows, columns, inner,
                 1.0f, args.a.data, args.a.shape[1], args.b.data, args.b.shape[1],
                 args.accumulate ? 1.0f : 0.0f, args.c.data, columns);
  if (status != dnnl_success)
    return {ErrorCode::internal, "oneDNN's matrix product failed with status " +
                                     std::to_string(static_cast<int>(status))};
  if (args.bias) add_row(args.bias, args.c);
  return {};
}

}  // namespace gpunode::cpu
