// The micro-kernels: a tile of the product stays in registers while the sum runs.
#pragma once

#include "blocking.h"

namespace sdrop::SDROP_CAPABILITY {

// Rows of vectors: vector j of row i begins at data + i * row + j * vector.
template <typename Float>
struct Block {
  Float* data;
  Index row;
  Index vector;
};
using Source = Block<const float>;
using Target = Block<float>;

// Rows of a tile of `vectors` vectors: as many sums as registers hold beside the operands.
constexpr int tile_rows(int vectors) {
#if SDROP_VECTOR_BYTES == 64
  return vectors == 4 ? 6 : 12;  // 32 registers
#else
  return vectors == 4 ? 3 : 6;  // 16 registers
#endif
}

// How many kept rows ahead the next row of weights is asked for. Indices are read so far ahead too,
// so a list of kept neurons goes on for as many behind its end.
constexpr Index kPrefetchDistance = 12;
static_assert(kPrefetchDistance <= kReadableBehindKept);

// Where row k of B lies, in the three ways in which a tile meets weights.

// Kept rows of a packed panel; its fixed pitch saves a multiplication a row. The first tile of a
// block asks for rows ahead of time, the others find them in the first-level cache.
template <bool Prefetching>
struct PackedRows {
  const float* data;
  const std::int32_t* kept;

  SDROP_INLINE Index index(Index k) const { return kept[k]; }
  SDROP_INLINE const float* vector(Index row, int j) const {
    return data + row * (4 * kLanes) + j * kLanes;
  }
  SDROP_INLINE void prefetch_ahead(Index k, const float* a) const {
    if constexpr (Prefetching) {
      const Index ahead = kept[k + kPrefetchDistance] * kPanelWidth;
#pragma GCC unroll 4
      for (int j = 0; j < kPanelWidth; j += 16) prefetch(data + ahead + j);
      prefetch(a + ahead);
      prefetch(a + ahead + 16);
    }
  }
  PackedRows from(Index k) const { return {data, kept + k}; }
  PackedRows<false> fetched() const { return {data, kept}; }
};

// Kept rows of the weight itself.
struct RowsInPlace {
  const float* data;
  const std::int32_t* kept;
  Index row_stride;
  Index vector_stride;

  SDROP_INLINE Index index(Index k) const { return kept[k]; }
  SDROP_INLINE const float* vector(Index row, int j) const {
    return data + row * row_stride + j * vector_stride;
  }
  SDROP_INLINE void prefetch_ahead(Index k, const float*) const {
    const float* ahead = data + kept[k + kPrefetchDistance] * row_stride;
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) prefetch(ahead + j * vector_stride);
  }
  RowsInPlace from(Index k) const { return {data, kept + k, row_stride, vector_stride}; }
  RowsInPlace fetched() const { return *this; }
};

// Rows that were gathered one behind the other, two vectors each.
struct GatheredRows {
  const float* data;

  SDROP_INLINE Index index(Index k) const { return k; }
  SDROP_INLINE const float* vector(Index row, int j) const {
    return data + row * (2 * kLanes) + j * kLanes;
  }
  SDROP_INLINE void prefetch_ahead(Index, const float*) const {}
  GatheredRows fetched() const { return *this; }
};

// sum += a b^T. The side with fewer vectors is held, the other comes one by one: 3 x 4 sums then
// need 16 registers, and not one more, which would put a sum into memory and halve the speed.
template <int Rows, int Vectors, typename Left, typename Right>
SDROP_INLINE void add_outer_product(Vector (&sum)[Rows][Vectors], const Left& left,
                                    const Right& right) {
  if constexpr (Rows < Vectors) {
    Vector a[Rows];
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) a[i] = broadcast(left(i));
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) {
      const Vector b = load(right(j));
#pragma GCC unroll 16
      for (int i = 0; i < Rows; ++i) sum[i][j] += a[i] * b;
    }
  } else {
    Vector b[Vectors];
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) b[j] = load(right(j));
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
      const Vector a = broadcast(left(i));
#pragma GCC unroll 4
      for (int j = 0; j < Vectors; ++j) sum[i][j] += a * b[j];
    }
  }
}

// target = start + A^T B over `count` rows. A, a chunk of transposed activations, is read element by
// element (its columns are the tile's rows), B vector by vector. The sum begins at zero and is added
// in the end: rounding errors then grow with the length of a block, not with that of the whole sum.
template <int Rows, int Vectors, typename Weights>
__attribute__((noinline)) void multiply_tile(Index count, Weights weights, const float* a,
                                             Source start, Target target) {
  Vector sum[Rows][Vectors] = {};
  for (Index k = 0; k < count; ++k) {
    const Index row = weights.index(k);
    weights.prefetch_ahead(k, a);
    const float* column = a + row * kChunk;
    add_outer_product(
        sum, [&](int i) { return column[i]; }, [&](int j) { return weights.vector(row, j); });
  }
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j)
      store(target.data + i * target.row + j * target.vector,
            sum[i][j] + load(start.data + i * start.row + j * start.vector));
}

// Rows of the tile that sums up weight gradients.
constexpr Index kAccumulatedRows = tile_rows(4);

// Row kept[i] of the target += sum over `count` rows of A, (count, kAccumulatedRows), and B.
template <int Rows>
__attribute__((noinline)) void accumulate_tile(Index count, const std::int32_t* kept,
                                               const float* a, const float* b, float* target) {
  constexpr int kVectors = 4;
  constexpr Index kRow = kVectors * kLanes;
  Vector sum[Rows][kVectors] = {};
  for (Index k = 0; k < count; ++k, a += kAccumulatedRows, b += kRow)
    add_outer_product(
        sum, [&](int i) { return a[i]; }, [&](int j) { return b + j * kLanes; });
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      float* to = target + kept[i] * kRow + j * kLanes;
      store(to, sum[i][j] + load(to));
    }
}

}  // namespace sdrop::SDROP_CAPABILITY
