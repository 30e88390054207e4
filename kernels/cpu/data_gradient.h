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

// Tiles of Rows kept neurons from `begin` on; the first that `end` leaves no room for is returned.
template <int Rows, int Vectors>
__attribute__((noinline)) Index gradient_tiles(const float* weight, Index weight_row, Kept kept,
                                               Index begin, Index end, Index count,
                                               const float* grads, bool add, float* sums) {
  static_assert(Rows <= kReadableBehindKept);
  Index k = begin;
  for (; k + Rows <= end; k += Rows) {
    const float *rows[Rows], *ahead[Rows];
    for (int i = 0; i < Rows; ++i) {
      rows[i] = weight + kept.neurons[k + i] * weight_row;
      ahead[i] = weight + kept.neurons[k + Rows + i] * weight_row;
    }
    gradient_tile<Rows, Vectors>(count, rows, ahead, grads, add, sums + k * Vectors * kLanes);
  }
  return k;
}

// Kept neurons [begin, end) of one chunk of so many vectors, in tiles of at most Rows of them.
template <int Rows, int Vectors>
void chunk_gradient(const float* weight, Index weight_row, Kept kept, Index begin, Index end,
                    Index count, const float* grads, bool add, float* sums) {
  begin = gradient_tiles<Rows, Vectors>(weight, weight_row, kept, begin, end, count, grads, add,
                                        sums);
  if constexpr (Rows > 1)
    if (begin < end)
      chunk_gradient<Rows - 1, Vectors>(weight, weight_row, kept, begin, end, count, grads, add,
                                        sums);
}

// Calls that of the chunk's number of vectors.
template <int Vectors, typename... Arguments>
SDROP_INLINE void gradient_of_vectors(Index vectors, Arguments... arguments) {
  if constexpr (Vectors > 1)
    if (vectors < Vectors) return gradient_of_vectors<Vectors - 1>(vectors, arguments...);
  chunk_gradient<gradient_rows(Vectors), Vectors>(arguments...);
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
    gradient_of_vectors<kChunkVectors>(chunk.vectors(), site.weight + block.first, weight_row, kept,
                                       begin, end, block.count, grads.at(chunk, first), add,
                                       sums + chunk.offset(kept.count));
  }
}

}  // namespace sdrop::SDROP_CAPABILITY
