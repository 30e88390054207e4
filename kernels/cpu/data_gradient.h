// The gradient that flows back through a site to the kept neurons of one step.
#pragma once

#include <algorithm>
#include <vector>

#include "dropped.h"
#include "gradient_chunk.h"
#include "product.h"
#include "tiled_products.h"

namespace sdrop::SDROP_CAPABILITY {

// Columns of the weight, in words, that a pass over the kept neurons reads.
struct ColumnBlock {
  Index first;
  Index count;
};

// `columns` in nearly equal blocks of whole cache lines, whose transposed gradients stay in the
// first cache.
inline std::vector<ColumnBlock> column_blocks(Index columns, Index rows) {
  const GradientChunk chunk = gradient_chunk(0, rows);
  const Index most = 4 * kGradientBytes / SDROP_VECTOR_BYTES / chunk.vectors_of_four();
  const Index size = round_up(divide_up(columns, divide_up(columns, most)), kLine);
  std::vector<ColumnBlock> blocks;
  for (Index first = 0; first < columns; first += size)
    blocks.push_back({first, std::min(size, columns - first)});
  return blocks;
}

// Not inlined: beside a loop over tiles compilers put two of its sums into memory.
template <typename Precision, int Rows, int Vectors>
__attribute__((noinline)) void half_gradient_tile(Index count, const float* const* weights,
                                                  const float* const* ahead, const float* whole,
                                                  const float* halves, bool add, float* sums) {
  gradient_tile<Precision, Rows, Vectors, true>(count, weights, ahead, whole, halves, add, sums);
}

// Vectors of a tile's sums a kept neuron, and of what becomes of them.
template <int Vectors, int Shared>
constexpr int kTileSums = Vectors + (Shared == 2);
template <int Vectors, int Shared>
constexpr int kResults = Shared == 4 ? divide_up(Vectors, 4) : kTileSums<Vectors, Shared>;

// Tiles of Rows kept neurons from `begin` on; the first that `end` leaves no room for is returned.
// `Shared` is how many columns of gradients share vectors: all `Vectors` of them, or with two a half
// one beside `Vectors` whole ones.
template <typename Precision, int Rows, int Vectors, int Shared>
__attribute__((noinline)) Index gradient_tiles(const float* weight, Index weight_row, Kept kept,
                                               Index begin, Index end, Index count,
                                               const float* grads, const float* halves, bool add,
                                               float* sums) {
  static_assert(Rows <= kReadableBehindKept);
  Index k = begin;
  for (; k + Rows <= end; k += Rows) {
    const float *rows[Rows], *ahead[Rows];
    for (int i = 0; i < Rows; ++i) {
      rows[i] = weight + kept.neurons[k + i] * weight_row;
      ahead[i] = weight + kept.neurons[k + Rows + i] * weight_row;
    }
    float* to = sums + k * kResults<Vectors, Shared> * kLanes;
    if constexpr (Shared == 4)
      gradient_tile_of_fours<Precision, Rows, Vectors>(count, rows, ahead, grads, add, to);
    else if constexpr (Shared == 2)
      half_gradient_tile<Precision, Rows, Vectors>(count, rows, ahead, grads, halves, add, to);
    else
      gradient_tile<Precision, Rows, Vectors, false>(count, rows, ahead, grads, halves, add, to);
  }
  return k;
}

// Kept neurons [begin, end) of one chunk of so many vectors, in tiles of at most Rows of them.
template <typename Precision, int Rows, int Vectors, int Shared>
void chunk_gradient(const float* weight, Index weight_row, Kept kept, Index begin, Index end,
                    Index count, const float* grads, const float* halves, bool add, float* sums) {
  begin = gradient_tiles<Precision, Rows, Vectors, Shared>(weight, weight_row, kept, begin, end,
                                                           count, grads, halves, add, sums);
  if constexpr (Rows > 1)
    if (begin < end)
      chunk_gradient<Precision, Rows - 1, Vectors, Shared>(weight, weight_row, kept, begin, end,
                                                           count, grads, halves, add, sums);
}

// Calls chunk_gradient for so many vectors, from Least to Most.
template <typename Precision, int Most, int Least, int Shared, typename... Arguments>
SDROP_INLINE void gradient_of_vectors(Index vectors, Arguments... arguments) {
  if constexpr (Most > Least)
    if (vectors < Most)
      return gradient_of_vectors<Precision, Most - 1, Least, Shared>(vectors, arguments...);
  chunk_gradient<Precision, gradient_rows(kTileSums<Most, Shared>), Most, Shared>(arguments...);
}

// sums = or += W[kept] G^T over one block of columns, for kept neurons [begin, end) and all rows of
// the gradients; column block.first of the weight is column `first` of the gradients, a multiple of
// four. The sums are chunks of (kept.count, pitch) as in product.h. A row of the weight has so many
// words.
template <typename Precision>
void data_gradient(const Site& site, Index weight_row, ColumnBlock block, Kept kept, Index begin,
                   Index end, TransposedGradients<Precision> grads, Index first, bool add,
                   float* sums) {
  const float* weight = static_cast<const float*>(site.weight) + block.first;
  for (Index row = 0; row < grads.rows; row += kChunk) {
    const GradientChunk chunk = gradient_chunk(row, grads.rows);
    const float* of_chunk = grads.data + chunk.offset(grads.columns);
    if constexpr (kInTiles) {
      chunk_gradient_in_tiles(weight, weight_row, kept, begin, end, block.count,
                              of_chunk + first * chunk.pitch(), chunk.vectors, add,
                              sums + chunk.offset(kept.count));
      continue;
    }
    const auto multiply = [&](const auto& gradient, Index vectors, Index whole, Index halves) {
      gradient(vectors, weight, weight_row, kept, begin, end, block.count,
               of_chunk + whole, of_chunk + halves, add, sums + chunk.offset(kept.count));
    };
    if (chunk.of_four > 0)
      multiply([](auto... all) { gradient_of_vectors<Precision, 6, 1, 4>(all...); }, chunk.of_four,
               first / 4 * chunk.of_four * kLanes, 0);
    else if (chunk.half)
      multiply([](auto... all) { gradient_of_vectors<Precision, 2, 2, 2>(all...); }, chunk.vectors,
               first * chunk.pitch(), chunk.halves(grads.columns) + first / 2 * kLanes);
    else
      multiply([](auto... all) { gradient_of_vectors<Precision, kChunkVectors, 2, 1>(all...); },
               chunk.vectors, first * chunk.pitch(), 0);
  }
}

}  // namespace sdrop::SDROP_CAPABILITY
