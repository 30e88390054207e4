// The gradient that flows back through a site to the kept neurons of one step.
#pragma once

#include <algorithm>
#include <vector>

#include "dropped.h"
#include "product.h"

namespace sdrop::SDROP_CAPABILITY {

// Columns of the weight that a pass over the kept neurons reads.
struct ColumnBlock {
  Index first;
  Index count;
};

// `columns` in nearly equal blocks of whole cache lines, whose transposed gradients stay in the
// first cache.
inline std::vector<ColumnBlock> column_blocks(Index columns, Index rows) {
  const Index pitch = chunk_of(0, rows).pitch();
  const Index most = kGradientBytes / static_cast<Index>(sizeof(float)) / pitch;
  const Index size = round_up(divide_up(columns, divide_up(columns, most)), 16);
  std::vector<ColumnBlock> blocks;
  for (Index first = 0; first < columns; first += size)
    blocks.push_back({first, std::min(size, columns - first)});
  return blocks;
}

// Calls the tile of exactly `rows` rows of weights.
template <int Most, int Vectors>
SDROP_INLINE void some_gradient_rows(Index rows, Index count, const float* const* weights,
                                     const float* const* ahead, const float* grads, bool add,
                                     float* sums) {
  if constexpr (Most > 1) {
    if (rows < Most)
      return some_gradient_rows<Most - 1, Vectors>(rows, count, weights, ahead, grads, add, sums);
  }
  gradient_tile<Most, Vectors>(count, weights, ahead, grads, add, sums);
}

// Kept neurons [begin, end) of one chunk of at most Vectors vectors.
template <int Vectors>
SDROP_INLINE void chunk_gradient(Index vectors, const float* weight, Index weight_row, Kept kept,
                                 Index begin, Index end, Index count, const float* grads, bool add,
                                 float* sums) {
  if constexpr (Vectors > 1) {
    if (vectors < Vectors)
      return chunk_gradient<Vectors - 1>(vectors, weight, weight_row, kept, begin, end, count,
                                         grads, add, sums);
  }
  constexpr int kRows = gradient_rows(Vectors);
  static_assert(kRows <= kReadableBehindKept);
  const float *rows[kRows], *ahead[kRows];
  for (Index k = begin; k < end; k += kRows) {
    const Index live = std::min<Index>(kRows, end - k);
    for (Index i = 0; i < live; ++i) {
      rows[i] = weight + kept.neurons[k + i] * weight_row;
      ahead[i] = weight + kept.neurons[k + kRows + i] * weight_row;
    }
    some_gradient_rows<kRows, Vectors>(live, count, rows, ahead, grads, add,
                                       sums + k * Vectors * kLanes);
  }
}

// Gradients (columns, rows), transposed in chunks.
struct TransposedGradients {
  const float* data;
  Index columns;

  const float* at(Chunk chunk, Index column) const {
    return data + chunk.offset(columns) + column * chunk.pitch();
  }
};

// sums = or += W[kept] G^T over one block of columns, for kept neurons [begin, end) and all chunks
// of `rows` rows; column block.first of the weight is column `first` of the gradients. The sums are
// chunks of kept.count neurons.
inline void data_gradient(const Site& site, Index weight_row, ColumnBlock block, Kept kept,
                          Index begin, Index end, Index rows, TransposedGradients grads,
                          Index first, bool add, float* sums) {
  for (Index row = 0; row < rows; row += kChunk) {
    const Chunk chunk = chunk_of(row, rows);
    chunk_gradient<kChunkVectors>(chunk.vectors(), site.weight + block.first, weight_row, kept,
                                  begin, end, block.count, grads.at(chunk, first), add,
                                  sums + chunk.offset(kept.count));
  }
}

}  // namespace sdrop::SDROP_CAPABILITY
