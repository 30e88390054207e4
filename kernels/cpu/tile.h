// The micro-kernels: a tile of the product stays in registers while the sum runs.
//
// They are inlined into a loop over tiles (but see half_gradient_tile), since a tile lasts but some
// hundred cycles: a call for each made products over all steps 1.02 to 1.07 times slower.
#pragma once

#include <algorithm>

#include "blocking.h"
#include "precision.h"

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

// Rows of a tile as wide as a panel: as many sums as registers hold beside the operands.
constexpr int kTileRows = SDROP_VECTOR_BYTES == 64 ? 6 : 3;  // of 32 registers and of 16

// Where row k of B lies, in the two ways in which a tile meets weights.

// Kept rows of a packed panel, or of one of several that lie side by side.
struct PackedRows {
  using Precision = Float32;

  const float* data;
  const std::int32_t* kept;
  Index pitch;

  SDROP_INLINE const float* row(Index k) const { return data + kept[k] * pitch; }
  SDROP_INLINE Vector vector(const float* row, int j) const { return load(row + j * kLanes); }
  PackedRows from(Index k) const { return {data, kept + k, pitch}; }
  SDROP_INLINE void ask_far(Index k, Index line) const { prefetch_far(row(k) + line * kLine); }
};

// The same of bfloat16 numbers: row k is kept rows 2 k and 2 k + 1. Their words are made here, since
// each step pairs up other rows. A packed row is made for it, see pack_panel. Behind an odd number
// of kept rows the last stands beside itself, times 0.
struct PackedPairs {
  using Precision = BFloat16;
  struct Row {
    const float *low, *high;
  };

  const float* data;
  const std::int32_t* kept;
  Index pitch;  // of one row, in words
  Index last;   // of the kept rows

  SDROP_INLINE Row row(Index k) const {
    return {data + kept[2 * k] * pitch, data + kept[std::min(2 * k + 1, last)] * pitch};
  }
  SDROP_INLINE Vector vector(const Row& row, int j) const {
    const Vector low = load(row.low + j / 2 * kLanes), high = load(row.high + j / 2 * kLanes);
    return j % 2 == 0 ? interleave<false>(low, high) : interleave<true>(low, high);
  }
  PackedPairs from(Index k) const { return {data, kept + 2 * k, pitch, last - 2 * k}; }
  SDROP_INLINE void ask_far(Index k, Index line) const {
    prefetch_far(row(k).low + line * kLine);
    prefetch_far(row(k).high + line * kLine);
  }
};

// The rows of packed panels that a step keeps.
template <typename Precision>
SDROP_INLINE auto packed_rows(const float* data, Index pitch, const std::int32_t* kept,
                              Index count) {
  if constexpr (Precision::kPerWord == 1)
    return PackedRows{data, kept, pitch};
  else
    return PackedPairs{data, kept, pitch, count - 1};
}

// The same where a step has no more rows than a tile: each weight is then used once, and the rows to
// come are asked for one by one as the tile goes. Asked for block by block they came late: of one
// to three sequences a forward pass measured 1.2 to 1.3 times as fast like this.
struct StreamedRows : PackedRows {
  SDROP_INLINE const float* row(Index k) const {
    const float* ahead = data + kept[k + kReadableBehindKept] * pitch;
#pragma GCC unroll 4
    for (Index j = 0; j < kPanelWidth; j += kLine) prefetch(ahead + j);
    return PackedRows::row(k);
  }
  StreamedRows from(Index k) const { return {PackedRows::from(k)}; }
};

// Kept rows of the weight itself.
struct RowsInPlace {
  using Precision = Float32;

  const float* data;
  const std::int32_t* kept;
  Index row_stride;
  Index vector_stride;

  SDROP_INLINE const float* row(Index k) const { return data + kept[k] * row_stride; }
  SDROP_INLINE Vector vector(const float* row, int j) const {
    return load(row + j * vector_stride);
  }
  RowsInPlace from(Index k) const { return {data, kept + k, row_stride, vector_stride}; }
};

// sum += a b^T. The side with fewer vectors is held, the other comes one by one: 3 x 4 sums then
// need 16 registers, and not one more, which would put a sum into memory and halve the speed.
template <typename Precision, int Rows, int Vectors, typename Left, typename Right>
SDROP_INLINE void add_outer_product(Vector (&sum)[Rows][Vectors], const Left& left,
                                    const Right& right) {
  if constexpr (Rows < Vectors) {
    Vector a[Rows];
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) a[i] = left(i);
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j) {
      const Vector b = right(j);
#pragma GCC unroll 16
      for (int i = 0; i < Rows; ++i) sum[i][j] = Precision::add_product(sum[i][j], a[i], b);
    }
  } else {
    Vector b[Vectors];
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j) b[j] = right(j);
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
      const Vector a = left(i);
#pragma GCC unroll 8
      for (int j = 0; j < Vectors; ++j) sum[i][j] = Precision::add_product(sum[i][j], a, b[j]);
    }
  }
}

// target = start + A^T B over `count` rows. A, transposed activations of the kept neurons, is read
// element by element (its columns are the tile's rows), B vector by vector. The sum begins at zero
// and is added in the end: rounding errors then grow with the length of a block, not with that of
// the whole sum. With each row k the tile calls ask(k), see product.h.
template <int Rows, int Vectors, typename Weights, typename Ask>
SDROP_INLINE void multiply_tile(Index count, Weights weights, const float* a, Index pitch,
                                Source start, Target target, const Ask& ask) {
  Vector sum[Rows][Vectors] = {};
#pragma GCC unroll 2  // half the branches to predict: a tenth faster
  for (Index k = 0; k < count; ++k, a += pitch) {
    const auto row = weights.row(k);
    ask(k);
    add_outer_product<typename Weights::Precision>(
        sum, [&](int i) { return broadcast_at(a + i); },
        [&](int j) { return weights.vector(row, j); });
  }
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j)
      store(target.data + i * target.row + j * target.vector,
            sum[i][j] + load(start.data + i * start.row + j * start.vector));
}

// Rows of weights that a tile of the data gradient takes together; each needs a pointer.
constexpr int gradient_rows(int vectors) {
  return std::min(8, (SDROP_VECTOR_BYTES == 64 ? 24 : 12) / vectors);
}

// sums = or += W G^T: row i of the sums is row i of the weights times `count` columns of gradients,
// with the batch in the lanes: `Vectors` whole vectors of each column and, with Halves, one more of
// each two (see gradient_chunk.h). Weights are read where they are, from end to end, and element by
// element, so that nothing has to be transposed. Meanwhile the rows `ahead` are asked for.
template <typename Precision, int Rows, int Vectors, bool Halves>
SDROP_INLINE void gradient_tile(Index count, const float* const* weights,
                                const float* const* ahead, const float* whole, const float* halves,
                                bool add, float* sums) {
  constexpr int kStep = Halves ? 2 : 1;
  Vector sum[Rows][Vectors] = {}, sum_halves[Rows][1] = {};
  const float* row[Rows];
  for (int i = 0; i < Rows; ++i) row[i] = weights[i];
  const auto add_column = [&](Index n) __attribute__((always_inline)) {
    add_outer_product<Precision>(
        sum, [&](int i) { return broadcast_at(row[i] + n); },
        [&](int j) { return load(whole + j * kLanes); });
    whole += Vectors * kLanes;
  };
  const auto half_vector = [&](int) { return load(halves); };
  for (Index first = 0; first < count; first += kLine) {
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) prefetch(ahead[i] + first);
    const Index end = std::min(count, first + kLine);
    Index n = first;
#pragma GCC unroll 4
    for (; n + kStep <= end; n += kStep) {
#pragma GCC unroll 2
      for (int i = 0; i < kStep; ++i) add_column(n + i);
      if constexpr (Halves) {
        add_outer_product<Precision>(
            sum_halves, [&](int i) { return broadcast_pair(row[i] + n); }, half_vector);
        halves += kLanes;
      }
    }
  }
  if (Halves && count % 2 == 1) {
    const auto last = [&](int i) {
      float pair[2] = {};
      std::memcpy(pair, row[i] + count - 1, sizeof *pair);
      return broadcast_pair(pair);
    };
    add_outer_product<Precision>(sum_halves, last, half_vector);
    add_column(count - 1);
  }
  constexpr int kSums = Vectors + Halves;
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kSums; ++j) {
      float* to = sums + (i * kSums + j) * kLanes;
      const Vector found = j < Vectors ? sum[i][j] : add_pairs(sum_halves[i][0], sum_halves[i][0]);
      store(to, add ? load(to) + found : found);
    }
}

// Adds each four lanes of vectors First to First + 3 of the sums, where there are as many.
template <int First, int Vectors>
SDROP_INLINE Vector sums_of_four(const Vector (&sum)[Vectors]) {
  Vector b{}, c{}, d{};
  if constexpr (First + 1 < Vectors) b = sum[First + 1];
  if constexpr (First + 2 < Vectors) c = sum[First + 2];
  if constexpr (First + 3 < Vectors) d = sum[First + 3];
  return add_pairs(add_pairs(sum[First], b), add_pairs(c, d));
}

// The same with four columns of gradients in `Vectors` vectors, which are multiplied with four
// weights; the four sums of a row are added in the end.
template <typename Precision, int Rows, int Vectors>
SDROP_INLINE void gradient_tile_of_fours(Index count, const float* const* weights,
                                         const float* const* ahead, const float* fours, bool add,
                                         float* sums) {
  Vector sum[Rows][Vectors] = {};
  const float* row[Rows];
  for (int i = 0; i < Rows; ++i) row[i] = weights[i];
  const auto add_four = [&](const auto& four_weights) __attribute__((always_inline)) {
    add_outer_product<Precision>(
        sum, [&](int i) { return broadcast_four(four_weights(i)); },
        [&](int j) { return load(fours + j * kLanes); });
    fours += Vectors * kLanes;
  };
  Index n = 0;
#pragma GCC unroll 2
  for (; n + 4 <= count; n += 4) {
    if (n % kLine == 0)
#pragma GCC unroll 8
      for (int i = 0; i < Rows; ++i) prefetch(ahead[i] + n);
    add_four([&](int i) { return row[i] + n; });
  }
  if (n < count) {
    float last[Rows][4] = {};
    for (int i = 0; i < Rows; ++i) std::copy_n(row[i] + n, count - n, last[i]);
    add_four([&](int i) { return last[i]; });
  }
  const auto put = [&](Vector found) __attribute__((always_inline)) {
    store(sums, add ? load(sums) + found : found);
    sums += kLanes;
  };
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
    put(sums_of_four<0>(sum[i]));
    if constexpr (Vectors > 4) put(sums_of_four<4>(sum[i]));
  }
}

// Row kept[i] of the target += sum over `count` rows of A, (count, kTileRows), and B.
template <typename Precision, int Rows>
SDROP_INLINE void accumulate_tile(Index count, const std::int32_t* kept, const float* a,
                                  const float* b, float* target) {
  constexpr int kVectors = 4;
  constexpr Index kRow = kVectors * kLanes;
  Vector sum[Rows][kVectors] = {};
#pragma GCC unroll 2
  for (Index k = 0; k < count; ++k, a += kTileRows, b += kRow)
    add_outer_product<Precision>(
        sum, [&](int i) { return broadcast_at(a + i); },
        [&](int j) { return load(b + j * kLanes); });
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
    float* row = target + kept[i] * kRow;
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j)
      store(row + j * kLanes, sum[i][j] + load(row + j * kLanes));
  }
}

}  // namespace sdrop::SDROP_CAPABILITY
