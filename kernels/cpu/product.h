// Products of more rows than a tile has, in blocks of kept neurons that stay in the first cache.
#pragma once

#include <algorithm>

#include "blocking.h"
#include "tile.h"

namespace sdrop::SDROP_CAPABILITY {

// Calls the tile of exactly `rows` rows.
template <int Most, int Vectors, typename Weights>
SDROP_INLINE void multiply_some_rows(Index rows, Index count, Weights weights, const float* a,
                                     Source start, Target target) {
  if constexpr (Most > 1) {
    if (rows < Most)
      return multiply_some_rows<Most - 1, Vectors>(rows, count, weights, a, start, target);
  }
  multiply_tile<Most, Vectors>(count, weights, a, start, target);
}

// target = start + A^T B for the rows of one chunk, in tiles of nearly equal height.
template <int Vectors, typename Weights>
void multiply_rows(Index rows, Index count, Weights weights, const float* a, Source start,
                   Target target) {
  constexpr int kMost = tile_rows(Vectors);
  Index tiles = divide_up(rows, kMost), height = divide_up(rows, tiles);
  multiply_some_rows<kMost, Vectors>(height, count, weights, a, start, target);
  for (Index first = height; --tiles > 0; first += height) {
    height = divide_up(rows - first, tiles);
    multiply_some_rows<kMost, Vectors>(
        height, count, weights.fetched(), a + first,
        {start.data + first * start.row, start.row, start.vector},
        {target.data + first * target.row, target.row, target.vector});
  }
}

// target = start + A[kept]^T B[kept] for one panel of columns and any number of rows; chunks of A
// are `chunk_size` elements apart.
template <typename Weights>
void multiply_panel(Index rows, Index count, Weights weights, const float* a, Index chunk_size,
                    Source start, Target target) {
  for (Index row = 0; row < rows; row += kChunk, a += chunk_size) {
    const Target sums{target.data + row * target.row, target.row, target.vector};
    Source from{start.data + row * start.row, start.row, start.vector};
    Index blocks = std::max<Index>(1, divide_up(count, kForwardBlock));
    for (Index first = 0; blocks > 0; --blocks) {
      const Index size = divide_up(count - first, blocks);
      multiply_rows<kPanelVectors>(std::min(kChunk, rows - row), size, weights.from(first), a,
                                   from, sums);
      from = {sums.data, sums.row, sums.vector};
      first += size;
    }
  }
}

template <int Most>
SDROP_INLINE void accumulate_some_rows(Index rows, Index count, const std::int32_t* kept,
                                       const float* a, const float* b, float* target) {
  if constexpr (Most > 1) {
    if (rows < Most) return accumulate_some_rows<Most - 1>(rows, count, kept, a, b, target);
  }
  accumulate_tile<Most>(count, kept, a, b, target);
}

// Where column `column` of A begins, when its columns come in groups of a tile's height. Groups are
// read from end to end; columns of a row-major A would be read a cache line a row, 64 streams at
// B = 64, more than a processor follows.
constexpr Index grouped(Index column, Index rows) {
  return column / kAccumulatedRows * rows * kAccumulatedRows + column % kAccumulatedRows;
}

// target[kept] += A^T B: A is (kept_count / kAccumulatedRows, rows, kAccumulatedRows), B (rows,
// kPanelWidth), the target (size, kPanelWidth). The next tile's targets are asked for meanwhile.
inline void accumulate_panel(Index kept_count, const std::int32_t* kept, Index rows,
                             const float* a, const float* b, float* target) {
  for (Index first = 0; first < kept_count; first += kAccumulatedRows) {
    const Index height = std::min(kAccumulatedRows, kept_count - first);
    for (Index ahead = first + height; ahead < std::min(first + 2 * height, kept_count); ++ahead)
      for (Index j = 0; j < kPanelWidth; j += 16) prefetch(target + kept[ahead] * kPanelWidth + j);
    accumulate_some_rows<kAccumulatedRows>(height, rows, kept + first, a + grouped(first, rows), b,
                                           target);
  }
}

}  // namespace sdrop::SDROP_CAPABILITY
