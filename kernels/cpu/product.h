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
                                       const float* a, Index a_row, const float* b,
                                       float* target) {
  if constexpr (Most > 1) {
    if (rows < Most)
      return accumulate_some_rows<Most - 1>(rows, count, kept, a, a_row, b, target);
  }
  accumulate_tile<Most>(count, kept, a, a_row, b, target);
}

// target[kept] += A^T B: A is (rows, kept_count), B (rows, panel), the target (size, panel).
inline void accumulate_panel(Index kept_count, const std::int32_t* kept, Index rows,
                             const float* a, const float* b, float* target) {
  constexpr int kMost = tile_rows(kPanelVectors);
  for (Index first = 0; first < kept_count; first += kMost) {
    const Index height = std::min<Index>(kMost, kept_count - first);
    for (Index ahead = first + kMost; ahead < std::min(first + 2 * kMost, kept_count); ++ahead)
      for (int j = 0; j < kPanelVectors; ++j)
        prefetch(target + kept[ahead] * kPanelWidth + j * kLanes);
    accumulate_some_rows<kMost>(height, rows, kept + first, a + first, kept_count, b, target);
  }
}

}  // namespace sdrop::SDROP_CAPABILITY
