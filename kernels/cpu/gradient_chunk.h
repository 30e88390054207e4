// How the transposed gradients that a data gradient reads lie in memory. A column is one of words: of
// bfloat16 numbers it is two neighbouring columns of the weight.
//
// The batch is in the lanes: a column of gradients is a few vectors, and each weight is multiplied
// with all of them. Where that would leave many lanes empty, neighbouring columns share vectors,
// which are multiplied with as many neighbouring weights: of a small batch four columns share all,
// and of a larger one, whose last rows fill no more than half of a vector, two columns share that.
// With eight lanes a batch of 10 is 1.25 vectors a column instead of 2, and one of 20 is 2.5 instead
// of 3.
#pragma once

#include <algorithm>
#include <cstring>

#include "blocking.h"
#include "precision.h"
#include "transpose.h"

namespace sdrop::SDROP_CAPABILITY {

// Up to kChunk rows of a batch, whose gradients lie behind those of the chunks before: the whole
// vectors, column by column, and then the halves, where lane = 2 * row + column % 2; or four columns
// at a time, where lane = 4 * row + column % 4.
struct GradientChunk {
  Index first_row;
  Index rows;
  Index vectors;  // of a column alone; without a half one zeroes fill up the last
  bool half;
  Index of_four;  // vectors of four columns, where these share all of them

  Index offset(Index columns) const { return first_row * columns; }
  Index pitch() const { return vectors * kLanes; }
  // Where the halves begin, behind the whole vectors of all columns.
  Index halves(Index columns) const { return columns * pitch(); }
  Index vectors_of_four() const { return of_four > 0 ? of_four : 4 * vectors + 2 * half; }
};

// The chunk of `rows` rows that row `row` is in.
inline GradientChunk gradient_chunk(Index row, Index rows) {
  const Index first = row / kChunk * kChunk, here = std::min(kChunk, rows - first);
  if (kInTiles) return {first, here, divide_up(here, kLanes), false, 0};
  // With eight lanes and up to 12 rows six vectors hold four columns, as many as a tile has registers
  // for. One load then gives four weights: the data gradients of 5 to 10 rows measured 1.15 to 1.4
  // times as fast, H = 100 and 650.
  if (2 * here <= 3 * kLanes) return {first, here, 0, false, divide_up(4 * here, kLanes)};
  // Beside three whole vectors a half one does not find enough registers.
  const Index whole = here / kLanes, rest = here % kLanes;
  const bool half = whole == 2 && rest > 0 && 2 * rest <= kLanes;
  return {first, here, half ? whole : divide_up(here, kLanes), half, 0};
}

// Floats of all chunks.
constexpr Index gradients_size(Index columns, Index rows) {
  return round_up(columns, 4) * round_up(rows, kLanes);
}

// Up to kLanes rows of a chunk, to be filled column by column.
template <typename Precision>
struct GradientRows {
  float* data;  // of column 0
  Index pitch;  // from a column, or from so many that share vectors, to the next
  Index rows;
  Index shared; // by 1, 2 or 4 columns

  // Lanes [lane, lane + count) of the rows, from_row apart, become numbers from `number` on of each
  // row; all three are even where two of them are a word. The source has room for whole vectors.
  SDROP_INLINE void write(Index number, const float* from, Index from_row, Index lane,
                          Index count) const {
    if constexpr (Precision::kPerWord == 1) {
      write_words(number, from, from_row, lane, count);
    } else {
      alignas(64) float pairs[(kLanes + 1) * kLanes / 2];
      for (Index row = 0; row < rows; ++row, from += from_row)
        store_first(reinterpret_cast<Half*>(pairs + row * kLanes / 2), load(from), kLanes);
      write_words(number / 2, pairs, kLanes / 2, lane / 2, count / 2);
    }
  }

 private:
  SDROP_INLINE void write_words(Index column, const float* from, Index from_row, Index lane,
                                Index count) const {
    if (shared == 1)
      transpose_square(from, from_row, rows, lane, count, data + column * pitch, pitch);
    else if (shared == 2)
      write_shared<2>(column, from + lane, from_row, count);
    else
      write_shared<4>(column, from + lane, from_row, count);
  }

  template <int Shared>
  SDROP_INLINE void write_shared(Index column, const float* from, Index from_row,
                                 Index count) const {
    const Index apart = Shared == 2 ? kLanes : pitch, before = column % Shared;
    const bool whole = count % Shared == 0 && before == 0;
    float* to = data + column / Shared * apart;
    for (Index row = 0; row < rows; ++row, from += from_row, to += Shared)
      if (whole) {
#pragma GCC unroll 8
        for (Index i = 0; i < count; i += Shared)
          std::memcpy(to + i / Shared * apart, from + i, Shared * sizeof(float));
      } else {
        for (Index i = 0, place = before; i < count; ++i, ++place)
          to[place / Shared * apart + place % Shared] = from[i];
      }
  }
};

// All chunks of transposed gradients (columns, rows).
template <typename Precision>
struct TransposedGradients {
  float* data;
  Index rows;
  Index columns;  // of words

  // Zeroes where the last columns share vectors with columns that are not there: their weights are
  // 0, and what lies there by chance could be NaN. Lanes of rows that are missing are read by
  // nobody, and an LSTM has no such last ones.
  void clear_free_lanes() const {
    if (rows == 0) return;
    const GradientChunk chunk = gradient_chunk(rows - 1, rows);
    float* of_chunk = data + chunk.offset(columns);
    if (chunk.of_four > 0 && columns % 4 > 0)
      std::fill_n(of_chunk + columns / 4 * chunk.of_four * kLanes, chunk.of_four * kLanes, 0.0f);
    if (chunk.half && columns % 2 > 0)
      std::fill_n(of_chunk + chunk.halves(columns) + columns / 2 * kLanes, kLanes, 0.0f);
  }

  // The rows from `row`, a multiple of kLanes, to the next multiple.
  GradientRows<Precision> rows_at(Index row) const {
    const GradientChunk chunk = gradient_chunk(row, rows);
    const Index of_chunk = row - chunk.first_row, here = std::min<Index>(kLanes, rows - row);
    float* begin = data + chunk.offset(columns);
    if (chunk.of_four > 0) return {begin + 4 * of_chunk, chunk.of_four * kLanes, here, 4};
    if (of_chunk == chunk.pitch()) return {begin + chunk.halves(columns), kLanes, here, 2};
    return {begin + of_chunk, chunk.pitch(), here, 1};
  }
};

// `rows` rows, from_row apart, of `columns` numbers.
template <typename Precision>
void transpose_rows(const float* from, Index from_row, Index rows, Index columns, float* to) {
  const TransposedGradients<Precision> transposed{to, rows, words<Precision>(columns)};
  transposed.clear_free_lanes();
  const Index whole = columns / kLanes * kLanes;
  alignas(64) float last[kLanes * kLanes] = {};
  for (Index row = 0; row < rows; row += kLanes, from += kLanes * from_row) {
    const GradientRows<Precision> here = transposed.rows_at(row);
    for (Index column = 0; column < whole; column += kLanes)
      here.write(column, from + column, from_row, 0, kLanes);
    if (whole == columns) continue;
    for (Index i = 0; i < here.rows; ++i)
      store(last + i * kLanes, load_first(from + i * from_row + whole, columns - whole));
    here.write(whole, last, kLanes, 0, columns - whole);
  }
}

}  // namespace sdrop::SDROP_CAPABILITY
