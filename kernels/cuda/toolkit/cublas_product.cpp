// cuBLASLt thinks in columns: our row-major c = a b is its c^T = b^T a^T, with the operands exchanged
// and nothing copied.
#include "kernels/cuda/toolkit/cublas_product.hpp"

namespace gpunode::cuda {
namespace {

// The descriptors of one product, destroyed with it.
struct Product {
  CublasLt& api;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t left = nullptr, right = nullptr, out = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;  // the first failure

  explicit Product(CublasLt& library) : api(library) {}
  ~Product() {
    if (preference) api.preference_destroy(preference);
    for (cublasLtMatrixLayout_t layout : {left, right, out})
      if (layout) api.layout_destroy(layout);
    if (operation) api.desc_destroy(operation);
  }
  void note(cublasStatus_t result) {
    if (status == CUBLAS_STATUS_SUCCESS) status = result;
  }
  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    if (status == CUBLAS_STATUS_SUCCESS)
      note(api.desc_set(operation, attribute, &value, sizeof value));
  }
};

// The largest power of two, 256 at most, that divides an address. Tensors of a flat parameter
// vector are aligned to one float only, and cuBLASLt takes 256 bytes for granted unless told.
std::uint32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data) | 256;
  return static_cast<std::uint32_t>(address & (~address + 1));
}

// A row-major (rows, columns) matrix is a column-major (columns, rows) one.
void describe(Product& product, cublasLtMatrixLayout_t& layout, const tensor::Shape& shape,
              cudaDataType_t type) {
  product.note(product.api.layout_create(&layout, type, static_cast<std::uint64_t>(shape[1]),
                                         static_cast<std::uint64_t>(shape[0]), shape[1]));
}

void prefer(Product& product, cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
  if (product.status == CUBLAS_STATUS_SUCCESS)
    product.note(product.api.preference_set(product.preference, attribute, &value, sizeof value));
}

// What is done to a product before it is written.
cublasLtEpilogue_t epilogue_of(const ops::MatmulArgs& args) {
  if (args.gelu && args.before)
    return args.bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
  if (args.gelu) return args.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  return args.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

void describe(Product& product, const ops::MatmulArgs& args, const ProductOperands& operands) {
  product.note(product.api.desc_create(&product.operation, operands.compute, CUDA_R_32F));
  product.set(CUBLASLT_MATMUL_DESC_TRANSA, args.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  product.set(CUBLASLT_MATMUL_DESC_TRANSB, args.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  product.set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(args));
  if (args.bias) product.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, args.bias.data);
  if (args.before) {
    product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, args.before.data);
    product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, args.before.shape[1]);
  }
  describe(product, product.left, args.b.shape, operands.type);
  describe(product, product.right, args.a.shape, operands.type);
  describe(product, product.out, args.c.shape, CUDA_R_32F);
  product.note(product.api.preference_create(&product.preference));
  prefer(product, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{operands.scratch_bytes});
  // Parts of the inner extent are summed in a step of their own, in a fixed order; of sums in place the
  // library promises only that no two happen at once.
  prefer(product, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         std::uint32_t{CUBLASLT_REDUCTION_SCHEME_MASK & ~CUBLASLT_REDUCTION_SCHEME_INPLACE});
  prefer(product, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(operands.b));
  prefer(product, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(operands.a));
  prefer(product, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(args.c.data));
  prefer(product, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(args.c.data));
}

Error failure(cublasStatus_t status, const ops::MatmulArgs& args) {
  const bool absent = status == CUBLAS_STATUS_NOT_SUPPORTED;
  return {absent ? ErrorCode::unsupported : ErrorCode::internal,
          "cuBLASLt's product " + args.a.shape.text() + " x " + args.b.shape.text() +
              " failed with status " + std::to_string(static_cast<int>(status))};
}

// The algorithm for this shape: one of the library's proposals, chosen once.
Result<cublasLtMatmulAlgo_t> choose(KeptAlgorithms& algorithms, Product& product,
                                    const ops::MatmulArgs& args, const ProductOperands& operands) {
  const std::int64_t flags = (args.transpose_a ? 1 : 0) | (args.transpose_b ? 2 : 0) |
                             (args.accumulate ? 4 : 0) | (args.bias ? 8 : 0) |
                             (operands.scratch ? 16 : 0) | (args.gelu ? 32 : 0) |
                             (args.before ? 64 : 0) | (std::int64_t{operands.type} << 8) |
                             (std::int64_t{operands.compute} << 24);
  // The library looks at all of these (of null: 256).
  std::int64_t alignments = 0;
  for (const void* data :
       {operands.a, operands.b, static_cast<const void*>(args.c.data),
        static_cast<const void*>(args.bias.data), static_cast<const void*>(args.before.data)})
    alignments = alignments << 12 | alignment_of(data);
  const KeptAlgorithms::Key key = {args.c.shape[0], args.c.shape[1],
                                   args.a.shape[args.transpose_a ? 0 : 1], flags, alignments};
  std::lock_guard lock(algorithms.mutex);
  if (auto found = algorithms.chosen.find(key); found != algorithms.chosen.end())
    return found->second;
  if (algorithms.absent.contains(key)) return failure(CUBLAS_STATUS_NOT_SUPPORTED, args);
  std::array<cublasLtMatmulHeuristicResult_t, KeptAlgorithms::kRanks> results{};
  int count = 0;
  const cublasStatus_t status = product.api.heuristic(
      product.api.handle, product.operation, product.left, product.right, product.out, product.out,
      product.preference, algorithms.rank + 1, results.data(), &count);
  if (count <= algorithms.rank || status == CUBLAS_STATUS_NOT_SUPPORTED ||
      (args.gelu && status != CUBLAS_STATUS_SUCCESS)) {  // a kernel of ours does it then
    algorithms.absent.insert(key);
    return failure(CUBLAS_STATUS_NOT_SUPPORTED, args);
  }
  if (status != CUBLAS_STATUS_SUCCESS) return failure(status, args);
  return algorithms.chosen.emplace(key, results[static_cast<std::size_t>(algorithms.rank)].algo)
      .first->second;
}

}  // namespace

Result<void> queue_product(CublasLt& library, KeptAlgorithms& algorithms,
                           const ops::MatmulArgs& args, const ProductOperands& operands,
                           cudaStream_t stream) {
  Product product(library);
  describe(product, args, operands);
  if (product.status != CUBLAS_STATUS_SUCCESS) return failure(product.status, args);
  auto algorithm = choose(algorithms, product, args, operands);
  if (!algorithm) return algorithm.error();
  const float one = 1.0f, kept = args.accumulate ? 1.0f : 0.0f;
  const cublasStatus_t status =
      library.matmul(library.handle, product.operation, &one, operands.b, product.left, operands.a,
                     product.right, &kept, args.c.data, product.out, args.c.data, product.out,
                     &*algorithm, operands.scratch, operands.scratch_bytes, stream);
  if (status != CUBLAS_STATUS_SUCCESS) return failure(status, args);
  return {};
}

}  // namespace gpunode::cuda
