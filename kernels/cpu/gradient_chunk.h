// How the transposed gradients that a data gradient reads lie in memory.
//
// The batch is in the lanes: a column of gradients is a few vectors, and each weight is multiplied
// with all of them. Where the last rows fill no more than half of a vector, two neighbouring columns
// of them share one, which is multiplied with two neighbouring weights. With eight lanes a batch of
// 20 is 2.5 vectors a column instead of 3, and one of 4 half a vector.
#pragma once

#include <algorithm>
#include <cstring>

#include "blocking.h"
#include "transpose.h"

namespace sdrop::SDROP_CAPABILITY {

// Up to kChunk rows of a batch, whose gradients lie behind those of the chunks before: the whole
// vectors, column by column, and then the halves, where lane = 2 * row + column % 2.
struct GradientChunk {
  Index first_row;
  Index rows;
  Index vectors;  // whole ones of a column; without a half, zeroes fill up the last
  bool half;

  Index offset(Index columns) const { return first_row * columns; }
  Index pitch() const { return vectors * kLanes; }
  // Where the halves begin, behind the whole vectors of all columns.
  Index halves(Index columns) const { return columns * pitch(); }
};

// The chunk of `rows` rows that row `row` is in.
inline GradientChunk gradient_chunk(Index row, Index rows) {
  const Index first = row / kChunk * kChunk, here = std::min(kChunk, rows - first);
  const Index whole = here / kLanes, rest = here % kLanes;
  // Beside one whole vector a half one needs more loads than another whole one, beside three it does
  // not find enough registers.
  const bool half = rest > 0 && 2 * rest <= kLanes && whole % 2 == 0;
  return {first, here, half ? whole : divide_up(here, kLanes), half};
}

// Up to kLanes rows of a chunk, to be filled column by column.
struct GradientRows {
  float* data;  // of column 0
  Index pitch;
  Index rows;
  bool half;

  // Lanes [lane, lane + count) of the rows, from_row apart, become columns from `column` on. The
  // source has room for whole vectors.
  SDROP_INLINE void write(Index column, const float* from, Index from_row, Index lane,
                          Index count) const {
    if (half)
      write_halves(column, from + lane, from_row, count);
    else
      transpose_square(from, from_row, rows, lane, count, data + column * pitch, pitch);
  }

 private:
  SDROP_INLINE void write_halves(Index column, const float* from, Index from_row,
                                 Index count) const {
    const bool pairs = count == kLanes && column % 2 == 0;
    float* to = data + column / 2 * kLanes;
    for (Index row = 0; row < rows; ++row, from += from_row, to += 2)
      if (pairs) {
#pragma GCC unroll 8
        for (Index i = 0; i < kLanes; i += 2)
          std::memcpy(to + i / 2 * kLanes, from + i, 2 * sizeof(float));
      } else {
        for (Index i = 0, odd = column % 2; i < count; ++i)
          to[(i + odd) / 2 * kLanes + (i + odd) % 2] = from[i];
      }
  }
};

// All chunks of transposed gradients (columns, rows).
struct TransposedGradients {
  float* data;
  Index rows;
  Index columns;

  // Zeroes where an odd number of columns leaves the last half without a partner: its weight is 0,
  // and what lies there by chance could be NaN. Lanes of rows that are missing are read by nobody,
  // and the 4 H columns of an LSTM are even.
  void clear_free_lanes() const {
    if (rows == 0 || columns % 2 == 0) return;
    const GradientChunk chunk = gradient_chunk(rows - 1, rows);
    if (!chunk.half) return;
    float* halves = data + chunk.offset(columns) + chunk.halves(columns);
    std::fill_n(halves + columns / 2 * kLanes, kLanes, 0.0f);
  }

  // The rows from `row`, a multiple of kLanes, to the next multiple.
  GradientRows rows_at(Index row) const {
    const GradientChunk chunk = gradient_chunk(row, rows);
    const Index of_chunk = row - chunk.first_row;
    const bool half = of_chunk == chunk.pitch();
    return {data + chunk.offset(columns) + (half ? chunk.halves(columns) : of_chunk),
            chunk.pitch(), std::min<Index>(kLanes, rows - row), half};
  }
};

// `rows` rows, from_row apart, of `columns` columns.
inline void transpose_rows(const float* from, Index from_row, Index rows, Index columns,
                           float* to) {
  const TransposedGradients transposed{to, rows, columns};
  transposed.clear_free_lanes();
  const Index whole = columns / kLanes * kLanes;
  alignas(64) float last[kLanes * kLanes] = {};
  for (Index row = 0; row < rows; row += kLanes, from += kLanes * from_row) {
    const GradientRows here = transposed.rows_at(row);
    for (Index column = 0; column < whole; column += kLanes)
      here.write(column, from + column, from_row, 0, kLanes);
    if (whole == columns) continue;
    for (Index i = 0; i < here.rows; ++i)
      store(last + i * kLanes, load_first(from + i * from_row + whole, columns - whole));
    here.write(whole, last, kLanes, 0, columns - whole);
  }
}

}  // namespace sdrop::SDROP_CAPABILITY
