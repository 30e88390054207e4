// Products of so few rows that a packed copy of all weights, written and then read again, costs more
// than it saves: one step of a sequence, as in generation, or the scores of its words.
//
// The time is near that of reading the weights, which are read once. A few rows of them side by side
// give a piece of each in turn, so that memory is read nearly from end to end; the sums stay in the
// cache. Panels read from their first row to their last instead, as a packed copy is, would meet
// another page at each row and, for hidden sizes that are powers of two, the same few cache sets:
// one step took 2 to 5 times as long, H = 256 to 1024.
#pragma once

#include <algorithm>

#include "dropped.h"
#include "panel.h"
#include "parallel.h"
#include "product.h"

namespace sdrop::SDROP_CAPABILITY {

// So many rows in all are few; from 24 on a packed copy is as good.
constexpr Index kFewRows = std::min<Index>(kChunk, 31);

// How many rows of weights are taken side by side. Where one tile has all rows of the batch, each
// weight is used once and read where it is; more rows abreast are more streams than a processor
// follows. Where several tiles use it, the rows are packed into the first cache, in the same sets
// each time: from four rows of a batch on this measured 1.0 to 1.2 times as fast, H = 256 to 640,
// and up to 3 times at H = 1024.
struct Abreast {
  Index rows;
  Index panels_ahead;  // that are asked for meanwhile
};
constexpr Abreast kInPlace{8, 4}, kPacked{16, 4};

// One row of a packed panel behind the other.
struct RowsInTurn {
  using Precision = Float32;

  const float* data;

  SDROP_INLINE const float* row(Index k) const { return data + k * kPanelWidth; }
  SDROP_INLINE Vector vector(const float* row, int j) const { return load(row + j * kLanes); }
};

// Columns side by side that a thread does together: of a weight, or the units of each gate.
struct Stripe {
  Index first, count;
};

// The longer the pieces of a row, the faster memory gives them, while the sums still have to fit
// into the cache: those of 31 rows and as many columns as this take 64 KB. Stripes of 256 took 1.1
// times as long, of 64 up to 1.6 times.
constexpr Index kMostOfStripe = 512;

// The stripes of `width` columns, as long as the loop's pieces allow.
template <typename Each>
void parallel_stripes(ParallelFor run, Index width, Index work_a_column, const Each& each) {
  parallel(run, divide_up(width, kPanelWidth), work_a_column * kPanelWidth,
           [&](Index begin, Index end) {
             const Index last = std::min(end * kPanelWidth, width);
             for (Index first = begin * kPanelWidth; first < last; first += kMostOfStripe)
               each(Stripe{first, std::min(kMostOfStripe, last - first)});
           });
}

// sums = A^T B[kept] for the `columns` columns of the weight that begin at `weight`; A is one chunk
// of `rows` rows, the sums are (rows, round_up(columns, kPanelWidth)).
inline void multiply_few_rows(const float* weight, Index row_stride, Index columns, Kept kept,
                              const float* a, Index rows, float* sums) {
  const Panels panels{columns, false};
  const Index width = panels.count() * kPanelWidth, pitch = round_up(rows, kLanes);
  const Abreast abreast = rows <= kTileRows ? kInPlace : kPacked;
  alignas(64) float packed[kPacked.rows * kPanelWidth];
  NothingAhead nothing;
  std::fill_n(sums, rows * width, 0.0f);
  for (Index first = 0; first < kept.count; first += abreast.rows) {
    const Index here = std::min(abreast.rows, kept.count - first);
    for (Index panel = 0; panel < panels.count(); ++panel) {
      Index asked = panel + abreast.panels_ahead, ahead = first;
      for (; asked >= panels.count(); asked -= panels.count()) ahead += abreast.rows;
      const auto ask = [&](Index i) {
        const Index row = std::min(ahead + i, kept.count - 1);
        for (Index j = 0; j < kPanelWidth; j += kLine)
          prefetch(weight + kept.neurons[row] * row_stride + asked * kPanelWidth + j);
      };
      const Columns of = panels.at(panel);
      float* to = sums + of.first;
      const auto add = [&](const auto& weights) {
        multiply_rows(rows, here, weights, a + first * pitch, pitch, {to, width, kLanes},
                      {to, width, kLanes}, nothing);
      };
      if (rows <= kTileRows && of.full()) {
        for (Index i = 0; i < here; ++i) ask(i);
        add(RowsInPlace{weight + of.first, kept.neurons + first, row_stride, kLanes});
      } else {
        for (Index i = 0; i < here; ++i) {
          ask(i);
          copy_panel(weight + kept.neurons[first + i] * row_stride, of, packed + i * kPanelWidth);
        }
        add(RowsInTurn{packed});
      }
    }
  }
}

}  // namespace sdrop::SDROP_CAPABILITY
