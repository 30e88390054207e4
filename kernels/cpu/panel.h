// Panels of columns, copied to where their rows lie one behind the other.
//
// A panel is read once a step, by rows that are a whole weight row apart: each in another page, and
// for hidden sizes that are powers of two all in the same few cache sets. Copied, none of that
// matters, and a panel that ends behind the last column is filled up with zeroes.
#pragma once

#include <algorithm>

#include "blocking.h"
#include "buffer.h"
#include "precision.h"

namespace sdrop::SDROP_CAPABILITY {

// Which columns of a row: vector j begins at first + j * stride and holds live[j] of them.
struct Columns {
  Index first;
  Index stride;
  Index live[kPanelVectors];

  bool full() const {
    return *std::min_element(live, live + kPanelVectors) == kLanes;
  }
};

// How the columns of a weight are divided into panels: in an LSTM's (K, 4H) a panel is the four
// gates of the same units, so that its owner can go on with the pointwise part; in a plain (K, N)
// it is kPanelWidth neighbours.
struct Panels {
  Index columns;
  bool gates;

  Index count() const {
    return gates ? divide_up(columns / 4, kLanes) : divide_up(columns, kPanelWidth);
  }

  Columns at(Index panel) const {
    const Index units = columns / 4;
    Columns found{gates ? panel * kLanes : panel * kPanelWidth, gates ? units : kLanes, {}};
    for (int j = 0; j < kPanelVectors; ++j) {
      const Index end = gates ? units : columns - j * kLanes;
      found.live[j] = std::clamp<Index>(end - found.first, 0, kLanes);
    }
    return found;
  }
};

// Rows from or to a weight are asked for so many in advance: each lies in another page.
constexpr Index kRowsAhead = 8;

// One row.
SDROP_INLINE void copy_panel(const float* from, const Columns& columns, float* to) {
#pragma GCC unroll 4
  for (int j = 0; j < kPanelVectors; ++j)
    store(to + j * kLanes,
          load_first(from + columns.first + j * columns.stride, columns.live[j]));
}

// (rows, row_stride) -> (rows, kPanelWidth).
SDROP_INLINE void pack_panel(const float* from, Index row_stride, Index rows,
                             const Columns& columns, float* to) {
  from += columns.first;
  for (Index row = 0; row < rows; ++row, from += row_stride, to += kPanelWidth)
#pragma GCC unroll 4
    for (int j = 0; j < kPanelVectors; ++j) {
      prefetch(from + kRowsAhead * row_stride + j * columns.stride);
      store(to + j * kLanes, load_first(from + j * columns.stride, columns.live[j]));
    }
}

// The same of bfloat16 numbers, whose rows PackedPairs interleaves: within each half of a panel four
// numbers of the one vector and four of the other take turns. `to` is (rows, kPanelWidth / 2) words.
SDROP_INLINE void pack_panel(const Half* from, Index row_stride, Index rows,
                             const Columns& columns, float* to) {
  from += columns.first;
  for (Index row = 0; row < rows; ++row, from += row_stride, to += kPanelWidth / 2)
    for (int j = 0; j < kPanelVectors; ++j) {
      const Half* vector = from + j * columns.stride;
      __builtin_prefetch(vector + kRowsAhead * row_stride);
      Half last[kLanes] = {};
      if (columns.live[j] < kLanes) {
        std::copy_n(vector, columns.live[j], last);
        vector = last;
      }
      char* half = reinterpret_cast<char*>(to + j / 2 * kLanes) + j % 2 * 4 * sizeof(Half);
#pragma GCC unroll 4
      for (int lane = 0; lane < kLanes; lane += 4)
        std::memcpy(half + 2 * lane * sizeof(Half), vector + lane, 4 * sizeof(Half));
    }
}

// (rows, kPanelWidth) -> (rows, row_stride); other columns of the target stay as they are.
template <typename Number>
void unpack_panel(const float* from, Index rows, Columns columns, Number* to, Index row_stride) {
  to += columns.first;
  for (Index row = 0; row < rows; ++row, from += kPanelWidth, to += row_stride)
#pragma GCC unroll 4
    for (int j = 0; j < kPanelVectors; ++j) {
      __builtin_prefetch(to + kRowsAhead * row_stride + j * columns.stride, 1);
      store_first(to + j * columns.stride, load(from + j * kLanes), columns.live[j]);
    }
}

}  // namespace sdrop::SDROP_CAPABILITY
