// What is said to cuBLASLt, against a library of the test's own that does on the host what the real
// one is documented to do with it: columns, leading dimensions, transposes, types, bias, sums.
#ifdef GPUNODE_HAS_CUDA
#include "kernels/cuda/toolkit/cublas_product.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace gpunode::cuda {
namespace {

struct Operation {
  cublasComputeType_t compute;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const float* bias = nullptr;
  float* kept = nullptr;  // before GELU
  std::int64_t kept_leading = 0;
};

bool has_bias(cublasLtEpilogue_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_GELU_BIAS ||
         epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}
bool keeps(cublasLtEpilogue_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}
bool has_gelu(cublasLtEpilogue_t epilogue) {
  return keeps(epilogue) || epilogue == CUBLASLT_EPILOGUE_GELU ||
         epilogue == CUBLASLT_EPILOGUE_GELU_BIAS;
}
double gelu(double x) {
  return x / 2 *
         (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

struct Layout {
  cudaDataType type;
  std::int64_t rows, columns, leading;
};

template <class To, class From>
To* as(From* opaque) {
  return reinterpret_cast<To*>(opaque);
}

float value_at(const void* data, const Layout& layout, std::int64_t row, std::int64_t column) {
  const std::int64_t at = row + column * layout.leading;
  if (layout.type == CUDA_R_32F) return static_cast<const float*>(data)[at];
  const std::uint32_t bits = std::uint32_t{static_cast<const std::uint16_t*>(data)[at]} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// D = alpha op(A) op(B) + beta C, and the bias on each of its columns; GELU of that.
cublasStatus_t multiply(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha,
                        const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                        cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                        cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t d_layout,
                        const cublasLtMatmulAlgo_t*, void*, std::size_t, cudaStream_t) {
  const auto& operation = *as<const Operation>(desc);
  const auto &left = *as<const Layout>(a_layout), &right = *as<const Layout>(b_layout),
             &out = *as<const Layout>(d_layout);
  const bool turned = operation.a == CUBLAS_OP_T, right_turned = operation.b == CUBLAS_OP_T;
  const std::int64_t inner = turned ? left.rows : left.columns;
  if (out.rows != (turned ? left.columns : left.rows) ||
      out.columns != (right_turned ? right.rows : right.columns) ||
      inner != (right_turned ? right.columns : right.rows) || left.type != right.type ||
      out.type != CUDA_R_32F)
    return CUBLAS_STATUS_INVALID_VALUE;
  for (std::int64_t row = 0; row < out.rows; ++row)
    for (std::int64_t column = 0; column < out.columns; ++column) {
      double sum = 0;
      for (std::int64_t k = 0; k < inner; ++k)
        sum += double{turned ? value_at(a, left, k, row) : value_at(a, left, row, k)} *
               double{right_turned ? value_at(b, right, column, k) : value_at(b, right, k, column)};
      sum *= *static_cast<const float*>(alpha);
      const float before = *static_cast<const float*>(beta);
      if (before != 0) sum += double{before} * value_at(c, out, row, column);
      if (has_bias(operation.epilogue)) sum += operation.bias[row];
      if (keeps(operation.epilogue))
        operation.kept[row + column * operation.kept_leading] = static_cast<float>(sum);
      if (has_gelu(operation.epilogue)) sum = gelu(sum);
      static_cast<float*>(d)[row + column * out.leading] = static_cast<float>(sum);
    }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                   const void* value, std::size_t bytes) {
  auto& operation = *as<Operation>(desc);
  void* place =
      attribute == CUBLASLT_MATMUL_DESC_TRANSA         ? static_cast<void*>(&operation.a)
      : attribute == CUBLASLT_MATMUL_DESC_TRANSB       ? static_cast<void*>(&operation.b)
      : attribute == CUBLASLT_MATMUL_DESC_EPILOGUE     ? static_cast<void*>(&operation.epilogue)
      : attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER ? static_cast<void*>(&operation.bias)
      : attribute == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER ? static_cast<void*>(&operation.kept)
      : attribute == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD
          ? static_cast<void*>(&operation.kept_leading)
          : nullptr;
  if (!place) return CUBLAS_STATUS_NOT_SUPPORTED;
  std::memcpy(place, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

int chosen = 0;  // algorithms that were asked for
int found = 1;   // algorithms that there are

void enter(CublasLt& library) {
  library.matmul = multiply;
  library.desc_set = set;
  library.desc_create = [](cublasLtMatmulDesc_t* made, cublasComputeType_t compute, cudaDataType) {
    *made = as<cublasLtMatmulDescOpaque_t>(new Operation{.compute = compute});
    return CUBLAS_STATUS_SUCCESS;
  };
  library.desc_destroy = [](cublasLtMatmulDesc_t desc) {
    delete as<Operation>(desc);
    return CUBLAS_STATUS_SUCCESS;
  };
  library.layout_create = [](cublasLtMatrixLayout_t* made, cudaDataType type, std::uint64_t rows,
                             std::uint64_t columns, std::int64_t leading) {
    *made = as<cublasLtMatrixLayoutOpaque_t>(new Layout{
        type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), leading});
    return CUBLAS_STATUS_SUCCESS;
  };
  library.layout_destroy = [](cublasLtMatrixLayout_t layout) {
    delete as<Layout>(layout);
    return CUBLAS_STATUS_SUCCESS;
  };
  library.preference_create = [](cublasLtMatmulPreference_t* made) {
    *made = as<cublasLtMatmulPreferenceOpaque_t>(new int(0));
    return CUBLAS_STATUS_SUCCESS;
  };
  library.preference_destroy = [](cublasLtMatmulPreference_t preference) {
    delete as<int>(preference);
    return CUBLAS_STATUS_SUCCESS;
  };
  library.preference_set = [](cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                              const void*, std::size_t) { return CUBLAS_STATUS_SUCCESS; };
  library.heuristic = [](cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                         cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                         cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t*,
                         int* count) {
    ++chosen;
    *count = found;
    return CUBLAS_STATUS_SUCCESS;
  };
}

struct Case {
  std::int64_t M, N, K;
  bool transpose_a, transpose_b, accumulate, bias;
  cudaDataType_t type;
};

std::vector<float> values(std::int64_t count, int seed) {
  std::vector<float> made(static_cast<std::size_t>(count));
  // Eighths: bf16 has them.
  for (std::size_t at = 0; at < made.size(); ++at)
    made[at] = static_cast<float>((static_cast<int>(at) * 7 + seed) % 33 - 16) / 8;
  return made;
}

std::vector<std::uint16_t> in_bf16(const std::vector<float>& from) {
  std::vector<std::uint16_t> made;
  for (const float value : from) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    made.push_back(static_cast<std::uint16_t>(bits >> 16));
  }
  return made;
}

void expect_product(CublasLt& library, KeptAlgorithms& algorithms, const Case& one) {
  const auto [M, N, K, transpose_a, transpose_b, accumulate, bias, type] = one;
  const auto a = values(M * K, 1), b = values(K * N, 2), row = values(N, 3);
  const auto short_a = in_bf16(a), short_b = in_bf16(b);
  std::vector<float> c = values(M * N, 4), before = c;
  const bool is_short = type == CUDA_R_16BF;
  const tensor::Shape a_shape = transpose_a ? tensor::Shape{K, M} : tensor::Shape{M, K};
  const tensor::Shape b_shape = transpose_b ? tensor::Shape{N, K} : tensor::Shape{K, N};
  ops::MatmulArgs args{.a = {a.data(), a_shape},
                       .b = {b.data(), b_shape},
                       .c = {c.data(), {M, N}},
                       .transpose_a = transpose_a,
                       .transpose_b = transpose_b,
                       .accumulate = accumulate};
  if (bias) args.bias = {row.data(), {N}};
  const ProductOperands operands{
      .a = is_short ? static_cast<const void*>(short_a.data()) : a.data(),
      .b = is_short ? static_cast<const void*>(short_b.data()) : b.data(),
      .type = type};
  const auto done = queue_product(library, algorithms, args, operands, nullptr);
  ASSERT_TRUE(done) << done.error().message();
  for (std::int64_t i = 0; i < M; ++i)
    for (std::int64_t j = 0; j < N; ++j) {
      double sum = accumulate ? double{before[static_cast<std::size_t>(i * N + j)]} : 0;
      for (std::int64_t k = 0; k < K; ++k)
        sum += double{a[static_cast<std::size_t>(transpose_a ? k * M + i : i * K + k)]} *
               double{b[static_cast<std::size_t>(transpose_b ? j * K + k : k * N + j)]};
      if (bias) sum += double{row[static_cast<std::size_t>(j)]};
      ASSERT_EQ(c[static_cast<std::size_t>(i * N + j)], static_cast<float>(sum))
          << i << ", " << j << " of " << M << "x" << N << "x" << K;
    }
}

TEST(CublasProduct, is_the_product_in_every_form_and_in_both_types) {
  CublasLt library;
  enter(library);
  KeptAlgorithms algorithms;
  for (const cudaDataType_t type : {CUDA_R_32F, CUDA_R_16BF})
    for (int form = 0; form < 16; ++form)
      for (const auto& [M, N, K] : {std::array<std::int64_t, 3>{5, 7, 3}, {1, 4, 9}, {8, 1, 2}})
        expect_product(
            library, algorithms,
            {M, N, K, (form & 1) != 0, (form & 2) != 0, (form & 4) != 0, (form & 8) != 0, type});
}

TEST(CublasProduct, keeps_its_algorithm_for_a_shape_and_another_for_another_type) {
  CublasLt library;
  enter(library);
  KeptAlgorithms algorithms;
  const int before = chosen;
  for (int time = 0; time < 3; ++time)
    for (const cudaDataType_t type : {CUDA_R_32F, CUDA_R_16BF})
      expect_product(library, algorithms, {4, 4, 4, false, true, false, false, type});
  // The addresses' alignments are part of the choice and may differ from time to time.
  EXPECT_EQ(static_cast<std::size_t>(chosen - before), algorithms.chosen.size());
  EXPECT_GE(algorithms.chosen.size(), 2u);
}

TEST(CublasProduct, in_tf32_is_asked_for_and_has_an_algorithm_of_its_own) {
  CublasLt library;
  enter(library);
  static cublasComputeType_t asked = CUBLAS_COMPUTE_32F;
  library.desc_create = [](cublasLtMatmulDesc_t* made, cublasComputeType_t compute, cudaDataType) {
    asked = compute;
    *made = as<cublasLtMatmulDescOpaque_t>(new Operation{.compute = compute});
    return CUBLAS_STATUS_SUCCESS;
  };
  KeptAlgorithms algorithms;
  std::vector<float> a(6), b(6), c(4);
  for (const auto compute : {CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32}) {
    const auto done =
        queue_product(library, algorithms,
                      {.a = {a.data(), {2, 3}}, .b = {b.data(), {3, 2}}, .c = {c.data(), {2, 2}}},
                      {.a = a.data(), .b = b.data(), .compute = compute}, nullptr);
    ASSERT_TRUE(done) << done.error().message();
    EXPECT_EQ(asked, compute);
  }
  EXPECT_EQ(algorithms.chosen.size(), 2u);
}

TEST(CublasProduct, is_never_summed_in_place) {
  CublasLt library;
  enter(library);
  static std::uint32_t allowed = CUBLASLT_REDUCTION_SCHEME_MASK;
  library.preference_set = [](cublasLtMatmulPreference_t,
                              cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                              std::size_t bytes) {
    if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK && bytes == sizeof allowed)
      std::memcpy(&allowed, value, sizeof allowed);
    return CUBLAS_STATUS_SUCCESS;
  };
  KeptAlgorithms algorithms;
  expect_product(library, algorithms, {4, 4, 4, false, false, false, false, CUDA_R_32F});
  EXPECT_EQ(allowed & CUBLASLT_REDUCTION_SCHEME_INPLACE, 0u);
  EXPECT_NE(allowed & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 0u);
}

TEST(CublasProduct, ends_in_gelu_and_keeps_what_was_before) {
  CublasLt library;
  enter(library);
  KeptAlgorithms algorithms;
  constexpr std::int64_t M = 3, N = 8, K = 5;
  const auto a = values(M * K, 1), b = values(N * K, 2), row = values(N, 3);
  for (const bool has_row : {true, false})
    for (const bool is_kept : {true, false}) {
      std::vector<float> plain(M * N), c(M * N), kept(M * N, -7.0f);
      ops::MatmulArgs args{.a = {a.data(), {M, K}},
                           .b = {b.data(), {N, K}},
                           .c = {plain.data(), {M, N}},
                           .transpose_b = true};
      if (has_row) args.bias = {row.data(), {N}};
      const ProductOperands operands{.a = a.data(), .b = b.data()};
      ASSERT_TRUE(queue_product(library, algorithms, args, operands, nullptr));
      args.c = {c.data(), {M, N}};
      args.gelu = ops::GeluForm::tanh;
      if (is_kept) args.before = {kept.data(), {M, N}};
      ASSERT_TRUE(queue_product(library, algorithms, args, operands, nullptr));
      for (std::size_t at = 0; at < c.size(); ++at)
        ASSERT_EQ(c[at], static_cast<float>(gelu(plain[at])));
      EXPECT_EQ(kept, is_kept ? plain : std::vector<float>(M * N, -7.0f));
    }
}

TEST(CublasProduct, may_be_another_than_the_first_proposal_where_there_are_as_many) {
  CublasLt library;
  enter(library);
  KeptAlgorithms algorithms;
  algorithms.rank = 2;
  std::vector<float> a(6), b(6), c(4);
  const auto queue = [&](ops::MatmulArgs args) {
    return queue_product(library, algorithms, args, {.a = a.data(), .b = b.data()}, nullptr);
  };
  found = 3;
  EXPECT_TRUE(queue({.a = {a.data(), {2, 3}}, .b = {b.data(), {3, 2}}, .c = {c.data(), {2, 2}}}));
  found = 2;
  const auto done =
      queue({.a = {a.data(), {1, 3}}, .b = {b.data(), {3, 2}}, .c = {c.data(), {1, 2}}});
  found = 1;
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::unsupported);
}

TEST(CublasProduct, that_no_algorithm_can_do_is_looked_for_once) {
  CublasLt library;
  enter(library);
  KeptAlgorithms algorithms;
  std::vector<float> a(6), b(6), c(4);
  const auto queue = [&] {
    return queue_product(
        library, algorithms,
        {.a = {a.data(), {2, 3}}, .b = {b.data(), {3, 2}}, .c = {c.data(), {2, 2}}},
        {.a = a.data(), .b = b.data()}, nullptr);
  };
  found = 0;
  const int before = chosen;
  EXPECT_FALSE(queue());
  EXPECT_FALSE(queue());
  found = 1;
  EXPECT_EQ(chosen - before, 1);
}

TEST(CublasProduct, that_no_algorithm_can_do_is_an_error_with_its_shapes) {
  CublasLt library;
  enter(library);
  KeptAlgorithms algorithms;
  std::vector<float> a(6), b(6), c(4);
  found = 0;
  const auto done =
      queue_product(library, algorithms,
                    {.a = {a.data(), {2, 3}}, .b = {b.data(), {3, 2}}, .c = {c.data(), {2, 2}}},
                    {.a = a.data(), .b = b.data()}, nullptr);
  found = 1;
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::unsupported);
  EXPECT_NE(done.error().message().find("(2, 3)"), std::string::npos) << done.error().message();
}

}  // namespace
}  // namespace gpunode::cuda
#endif
