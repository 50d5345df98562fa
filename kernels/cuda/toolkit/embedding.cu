// Embedding: a warp's worth of threads adds up one row of x. Backward, in the order of (b, t) and
// with the CPU's bits: the block of a place whose token stands nowhere before it collects all
// places of that token, in order, and adds their rows; the others end at once. No atomics, no
// scratch memory; the search reads, for every place, the tokens before it out of the second cache:
// 134 MB for 8,192 places, which grows with their square. A token or segment outside its table
// gives a row of NaN and no gradient.
#include "kernels/cuda/toolkit/packed_weight.cuh"

namespace gpunode::cuda {
namespace {

constexpr int kRowLanes = 32;  // threads a row of x
constexpr int kRowsOfBlock = kElementThreads / kRowLanes;
constexpr int kPlaceThreads = 128;

// A row of a table, or null where there is no such row.
__device__ const float* row_of(const float* table, int row, int rows, int channels) {
  return row >= 0 && row < rows ? table + std::int64_t{row} * channels : nullptr;
}

__global__ void embed_rows(EmbeddingLaunch pass) {
  const std::int64_t rows = static_cast<std::int64_t>(pass.samples) * pass.positions;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kRowsOfBlock;
  const int thread = static_cast<int>(threadIdx.x) % kRowLanes;
  const bool by_four = pass.channels % 4 == 0 && allow_four(pass.token_table, pass.position_table,
                                                            pass.segment_table, pass.x);
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kRowsOfBlock +
                          static_cast<int>(threadIdx.x) / kRowLanes;
       row < rows; row += stride) {
    const float* parts[3];
    int count = 0;
    const int token = pass.tokens[row];
    const bool is_packed = pass.packed_table.data;
    const std::byte* packed =
        is_packed ? pass.packed_table.data + token * pass.packed_table.row : nullptr;
    bool known = token >= 0 && token < pass.vocabulary;
    if (!is_packed)
      parts[count++] = row_of(pass.token_table, token, pass.vocabulary, pass.channels);
    if (pass.position_table)
      parts[count++] = pass.position_table + (pass.given ? pass.given[row] : row % pass.positions) *
                                                 std::int64_t{pass.channels};
    if (pass.segments)
      parts[count++] =
          row_of(pass.segment_table, pass.segments[row], pass.segment_count, pass.channels);
    for (int part = 0; part < count; ++part) known = known && parts[part];
    float* x = pass.x + row * pass.channels;
    for_row(pass.channels, thread, kRowLanes, by_four, [&]<int kCount>(int i) {
      Lanes<kCount> sum;
      for (float& value : sum.at) value = NAN;
      for (int lane = 0; known && is_packed && lane < kCount; ++lane)
        sum.at[lane] = weight_at(pass.packed_table.format, packed, i + lane, pass.channels);
      for (int part = 0; known && part < count; ++part) {
        const Lanes<kCount> more = load<kCount>(parts[part] + i);
        for (int lane = 0; lane < kCount; ++lane)
          sum.at[lane] = part == 0 && !is_packed ? more.at[lane] : sum.at[lane] + more.at[lane];
      }
      store(x + i, sum);
    });
  }
}

// Rows of dx added to the rows of a table that `ids` name, in order.
struct NamedRows {
  const std::int32_t* ids;  // (places)
  const float* dx;          // (places, C)
  float* table;             // (rows, C)
  std::int64_t places;
  int rows, channels;
  int parts;  // blocks that share the columns of a row: more where few rows have all places
};

// Whether ids[0 .. end) hold the id; the same answer for all threads.
__device__ bool stands_before(const std::int32_t* ids, std::int64_t end, std::int32_t id,
                              int* found) {
  constexpr int kAtOnce = 8 * kPlaceThreads;
  for (std::int64_t first = 0; first < end; first += kAtOnce) {
    if (threadIdx.x == 0) *found = 0;
    __syncthreads();
    for (std::int64_t place = first + threadIdx.x; place < end && place < first + kAtOnce;
         place += kPlaceThreads)
      if (ids[place] == id) *found = 1;
    __syncthreads();
    const bool here = *found != 0;
    __syncthreads();
    if (here) return true;
  }
  return false;
}

// Writes the places in [first, first + kPlaceThreads) that hold the id to `list`, in order, and
// returns how many they are.
__device__ int collect(const NamedRows& pass, std::int64_t first, std::int32_t id,
                       unsigned char* holds, std::int64_t* list) {
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t place = first + thread;
  const bool mine = place < pass.places && pass.ids[place] == id;
  holds[thread] = mine ? 1 : 0;
  __syncthreads();
  int before = 0, all = 0;
  for (int other = 0; other < kPlaceThreads; ++other) {
    before += other < thread ? holds[other] : 0;
    all += holds[other];
  }
  if (mine) list[before] = place;
  __syncthreads();
  return all;
}

__global__ void add_named_rows(NamedRows pass) {
  __shared__ int found;
  __shared__ unsigned char holds[kPlaceThreads];
  __shared__ std::int64_t list[kPlaceThreads];
  const std::int64_t place = blockIdx.x / static_cast<unsigned>(pass.parts);
  const int part = static_cast<int>(blockIdx.x % static_cast<unsigned>(pass.parts));
  const int width = (pass.channels + 4 * pass.parts - 1) / (4 * pass.parts) * 4;
  const int begin = part * width, rest = pass.channels - begin;
  const std::int32_t id = pass.ids[place];
  if (id < 0 || id >= pass.rows || rest <= 0) return;
  if (stands_before(pass.ids, place, id, &found)) return;
  float* sums = pass.table + std::int64_t{id} * pass.channels + begin;
  const float* dx = pass.dx + begin;
  const bool by_four = pass.channels % 4 == 0 && allow_four(dx, sums);
  for (std::int64_t first = place; first < pass.places; first += kPlaceThreads) {
    const int count = collect(pass, first, id, holds, list);
    for_row(rest < width ? rest : width, static_cast<int>(threadIdx.x), kPlaceThreads, by_four,
            [&]<int kCount>(int i) {
              if (count == 0) return;
              Lanes<kCount> sum = load<kCount>(sums + i);
              for (int entry = 0; entry < count; ++entry) {
                const Lanes<kCount> row = load<kCount>(dx + list[entry] * pass.channels + i);
                for (int lane = 0; lane < kCount; ++lane) sum.at[lane] += row.at[lane];
              }
              store(sums + i, sum);
            });
    __syncthreads();  // the list is written again
  }
}

__global__ void clear_segments(EmbeddingBackwardLaunch pass) {
  const std::int64_t count = static_cast<std::int64_t>(pass.segment_count) * pass.channels;
  for_elements(count, allow_four(pass.dsegment_table), [&]<int kCount>(std::int64_t i) {
    store(pass.dsegment_table + i, Lanes<kCount>{});
  });
}

__global__ void sum_position_rows(EmbeddingBackwardLaunch pass) {
  const std::int64_t used = static_cast<std::int64_t>(pass.positions) * pass.channels;
  const bool by_four = used % 4 == 0 && allow_four(pass.dx, pass.dposition_table);
  for_elements(pass.table_elements, by_four, [&]<int kCount>(std::int64_t i) {
    Lanes<kCount> sum = {};
    if (i < used)  // whole groups of four lie on one side
      for (std::int64_t at = i; at < pass.places * pass.channels; at += used) {
        const Lanes<kCount> dx = load<kCount>(pass.dx + at);
        for (int lane = 0; lane < kCount; ++lane) sum.at[lane] += dx.at[lane];
      }
    store(pass.dposition_table + i, sum);
  });
}

}  // namespace

cudaError_t launch(const EmbeddingLaunch& work, cudaStream_t stream) {
  const std::int64_t rows = static_cast<std::int64_t>(work.samples) * work.positions;
  const std::int64_t blocks = (rows + kRowsOfBlock - 1) / kRowsOfBlock;
  GPUNODE_LAUNCH(embed_rows, blocks < kElementBlocks ? blocks : kElementBlocks, kElementThreads,
                 stream, work);
  return cudaGetLastError();
}

cudaError_t launch(const EmbeddingBackwardLaunch& work, cudaStream_t stream) {
  const NamedRows words{work.tokens,   work.dx, work.dtoken_table, work.places, work.vocabulary,
                        work.channels, 1};
  GPUNODE_LAUNCH(add_named_rows, words.places, kPlaceThreads, stream, words);
  if (work.dposition_table)
    GPUNODE_LAUNCH(sum_position_rows, element_blocks(work.table_elements), kElementThreads, stream,
                   work);
  if (work.segments) {
    const int parts = (work.channels + 63) / 64;
    const NamedRows kinds{
        work.segments, work.dx, work.dsegment_table, work.places, work.segment_count,
        work.channels, parts};
    GPUNODE_LAUNCH(clear_segments, 1, kElementThreads, stream, work);
    GPUNODE_LAUNCH(add_named_rows, kinds.places * parts, kPlaceThreads, stream, kinds);
  }
  return cudaGetLastError();
}

}  // namespace gpunode::cuda
