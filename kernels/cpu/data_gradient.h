// The gradient that flows back through a site to the kept neurons of one step.
#pragma once

#include <algorithm>
#include <vector>

#include "dropped.h"
#include "gradient_chunk.h"
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
  const GradientChunk chunk = gradient_chunk(0, rows);
  const Index vectors_of_two = 2 * chunk.vectors + chunk.half;
  const Index most = 2 * kGradientBytes / SDROP_VECTOR_BYTES / vectors_of_two;
  const Index size = round_up(divide_up(columns, divide_up(columns, most)), 16);
  std::vector<ColumnBlock> blocks;
  for (Index first = 0; first < columns; first += size)
    blocks.push_back({first, std::min(size, columns - first)});
  return blocks;
}

// Not inlined: beside a loop over tiles compilers put two of its sums into memory.
template <int Rows, int Vectors>
__attribute__((noinline)) void half_gradient_tile(Index count, const float* const* weights,
                                                  const float* const* ahead, const float* whole,
                                                  const float* halves, bool add, float* sums) {
  gradient_tile<Rows, Vectors, true>(count, weights, ahead, whole, halves, add, sums);
}

// Tiles of Rows kept neurons from `begin` on; the first that `end` leaves no room for is returned.
template <int Rows, int Vectors, bool Half>
__attribute__((noinline)) Index gradient_tiles(const float* weight, Index weight_row, Kept kept,
                                               Index begin, Index end, Index count,
                                               const float* whole, const float* halves, bool add,
                                               float* sums) {
  static_assert(Rows <= kReadableBehindKept);
  Index k = begin;
  for (; k + Rows <= end; k += Rows) {
    const float *rows[Rows], *ahead[Rows];
    for (int i = 0; i < Rows; ++i) {
      rows[i] = weight + kept.neurons[k + i] * weight_row;
      ahead[i] = weight + kept.neurons[k + Rows + i] * weight_row;
    }
    float* to = sums + k * (Vectors + Half) * kLanes;
    if constexpr (Half)
      half_gradient_tile<Rows, Vectors>(count, rows, ahead, whole, halves, add, to);
    else
      gradient_tile<Rows, Vectors, false>(count, rows, ahead, whole, halves, add, to);
  }
  return k;
}

// Kept neurons [begin, end) of one chunk of so many vectors, in tiles of at most Rows of them.
template <int Rows, int Vectors, bool Half>
void chunk_gradient(const float* weight, Index weight_row, Kept kept, Index begin, Index end,
                    Index count, const float* whole, const float* halves, bool add, float* sums) {
  begin = gradient_tiles<Rows, Vectors, Half>(weight, weight_row, kept, begin, end, count, whole,
                                              halves, add, sums);
  if constexpr (Rows > 1)
    if (begin < end)
      chunk_gradient<Rows - 1, Vectors, Half>(weight, weight_row, kept, begin, end, count, whole,
                                              halves, add, sums);
}

// Calls chunk_gradient for so many vectors.
template <int Vectors, bool Half, typename... Arguments>
SDROP_INLINE void gradient_of_vectors(Index vectors, Arguments... arguments) {
  constexpr int kStep = Half ? 2 : 1;
  if constexpr (Vectors >= 2)
    if (vectors < Vectors) return gradient_of_vectors<Vectors - kStep, Half>(vectors, arguments...);
  chunk_gradient<gradient_rows(Vectors + Half), Vectors, Half>(arguments...);
}

// sums = or += W[kept] G^T over one block of columns, for kept neurons [begin, end) and all rows of
// the gradients; column block.first of the weight is column `first` of the gradients, a multiple of
// two. The sums are chunks of (kept.count, pitch) as in product.h.
inline void data_gradient(const Site& site, Index weight_row, ColumnBlock block, Kept kept,
                          Index begin, Index end, TransposedGradients grads, Index first, bool add,
                          float* sums) {
  for (Index row = 0; row < grads.rows; row += kChunk) {
    const GradientChunk chunk = gradient_chunk(row, grads.rows);
    const float* of_chunk = grads.data + chunk.offset(grads.columns);
    const float* whole = of_chunk + first * chunk.pitch();
    const float* halves =
        chunk.half ? of_chunk + chunk.halves(grads.columns) + first / 2 * kLanes : nullptr;
    const auto multiply = [&](const auto& gradient) {
      gradient(chunk.vectors, site.weight + block.first, weight_row, kept, begin, end, block.count,
               whole, halves, add, sums + chunk.offset(kept.count));
    };
    if (chunk.half)
      multiply([](auto... all) { gradient_of_vectors<2, true>(all...); });
    else
      multiply([](auto... all) { gradient_of_vectors<kChunkVectors, false>(all...); });
  }
}

}  // namespace sdrop::SDROP_CAPABILITY
