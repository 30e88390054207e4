// A square of vectors transposed in registers: 4x4 squares within 128-bit blocks, then the blocks.
#pragma once

#include "vector.h"

namespace sdrop::SDROP_CAPABILITY {

#if SDROP_VECTOR_BYTES == 16
#define SDROP_IN_BLOCKS(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, (k) + 4, (l) + 4)
#define SDROP_INTERLEAVE(a, b, i, j) __builtin_shufflevector(a, b, i, (i) + 4, j, (j) + 4)
#elif SDROP_VECTOR_BYTES == 32
#define SDROP_IN_BLOCKS(a, b, i, j, k, l) \
  __builtin_shufflevector(a, b, i, j, (k) + 8, (l) + 8, (i) + 4, (j) + 4, (k) + 12, (l) + 12)
#define SDROP_INTERLEAVE(a, b, i, j) \
  __builtin_shufflevector(a, b, i, (i) + 8, j, (j) + 8, (i) + 4, (i) + 12, (j) + 4, (j) + 12)
#else
#define SDROP_IN_BLOCKS(a, b, i, j, k, l)                                                         \
  __builtin_shufflevector(a, b, i, j, (k) + 16, (l) + 16, (i) + 4, (j) + 4, (k) + 20, (l) + 20,   \
                          (i) + 8, (j) + 8, (k) + 24, (l) + 24, (i) + 12, (j) + 12, (k) + 28,     \
                          (l) + 28)
#define SDROP_INTERLEAVE(a, b, i, j)                                                              \
  __builtin_shufflevector(a, b, i, (i) + 16, j, (j) + 16, (i) + 4, (i) + 20, (j) + 4, (j) + 20,   \
                          (i) + 8, (i) + 24, (j) + 8, (j) + 24, (i) + 12, (i) + 28, (j) + 12,     \
                          (j) + 28)
#endif

SDROP_INLINE void transpose_in_blocks(Vector* row) {
  const Vector low01 = SDROP_INTERLEAVE(row[0], row[1], 0, 1);
  const Vector high01 = SDROP_INTERLEAVE(row[0], row[1], 2, 3);
  const Vector low23 = SDROP_INTERLEAVE(row[2], row[3], 0, 1);
  const Vector high23 = SDROP_INTERLEAVE(row[2], row[3], 2, 3);
  row[0] = SDROP_IN_BLOCKS(low01, low23, 0, 1, 0, 1);
  row[1] = SDROP_IN_BLOCKS(low01, low23, 2, 3, 2, 3);
  row[2] = SDROP_IN_BLOCKS(high01, high23, 0, 1, 0, 1);
  row[3] = SDROP_IN_BLOCKS(high01, high23, 2, 3, 2, 3);
}

#if SDROP_VECTOR_BYTES == 64
// Blocks i and j of a, then blocks k and l of b.
#define SDROP_BLOCKS(a, b, i, j, k, l)                                                            \
  __builtin_shufflevector(a, b, 4 * (i), 4 * (i) + 1, 4 * (i) + 2, 4 * (i) + 3, 4 * (j),          \
                          4 * (j) + 1, 4 * (j) + 2, 4 * (j) + 3, 4 * (k) + 16, 4 * (k) + 17,      \
                          4 * (k) + 18, 4 * (k) + 19, 4 * (l) + 16, 4 * (l) + 17, 4 * (l) + 18,   \
                          4 * (l) + 19)
#endif

// Row i becomes column i.
SDROP_INLINE void transpose(Vector (&row)[kLanes]) {
#pragma GCC unroll 4
  for (int i = 0; i < kLanes; i += 4) transpose_in_blocks(row + i);
#if SDROP_VECTOR_BYTES == 32
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const Vector a = row[i], b = row[i + 4];
    row[i] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
    row[i + 4] = __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
  }
#elif SDROP_VECTOR_BYTES == 64
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const Vector even01 = SDROP_BLOCKS(row[i], row[i + 4], 0, 2, 0, 2);
    const Vector odd01 = SDROP_BLOCKS(row[i], row[i + 4], 1, 3, 1, 3);
    const Vector even23 = SDROP_BLOCKS(row[i + 8], row[i + 12], 0, 2, 0, 2);
    const Vector odd23 = SDROP_BLOCKS(row[i + 8], row[i + 12], 1, 3, 1, 3);
    row[i] = SDROP_BLOCKS(even01, even23, 0, 2, 0, 2);
    row[i + 4] = SDROP_BLOCKS(odd01, odd23, 0, 2, 0, 2);
    row[i + 8] = SDROP_BLOCKS(even01, even23, 1, 3, 1, 3);
    row[i + 12] = SDROP_BLOCKS(odd01, odd23, 1, 3, 1, 3);
  }
#endif
}

// `rows` rows of kLanes elements, row_stride apart, to `count` of their columns from `first` on,
// `pitch` apart; zeroes stand for the rows that are missing.
SDROP_INLINE void transpose_square(const float* from, Index row_stride, Index rows, Index first,
                                   Index count, float* to, Index pitch) {
  Vector square[kLanes];
  if (rows == kLanes) {
#pragma GCC unroll 16
    for (Index i = 0; i < kLanes; ++i) square[i] = load(from + i * row_stride);
  } else {
    for (Index i = 0; i < kLanes; ++i)
      square[i] = i < rows ? load(from + i * row_stride) : Vector{};
  }
  transpose(square);
  if (count == kLanes) {
#pragma GCC unroll 16
    for (Index j = 0; j < kLanes; ++j) store(to + j * pitch, square[j]);
  } else {
    for (Index j = 0; j < count; ++j) store(to + j * pitch, square[first + j]);
  }
}

}  // namespace sdrop::SDROP_CAPABILITY
