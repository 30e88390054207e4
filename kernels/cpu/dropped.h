// Activations as the products want them: dropped, scaled, and transposed or without the gaps.
#pragma once

#include <algorithm>
#include <vector>

#include "blocking.h"
#include "buffer.h"
#include "product.h"
#include "transpose.h"

namespace sdrop::SDROP_CAPABILITY {

inline bool is_constant(const Site& site) { return site.sets == 1; }

// Where row `row` of `size` neurons begins in transposed chunks.
constexpr Index chunked(Index row, Index size) {
  return row / kChunk * kChunk * size + row % kChunk;
}

struct Kept {
  const std::int32_t* neurons;
  Index count;
};

inline Kept kept_at(const Site& site, Index step) {
  const Index set = is_constant(site) ? 0 : step;
  const Index begin = site.set_starts[set];
  return {site.kept + begin, site.set_starts[set + 1] - begin};
}

// The most neurons that any step keeps.
inline Index most_kept(const Site& site) {
  Index most = 0;
  for (Index set = 0; set < site.sets; ++set)
    most = std::max(most, site.set_starts[set + 1] - site.set_starts[set]);
  return most;
}

// What the elements of one row are multiplied by.
struct Factors {
  const float* each;  // or null, where all have the same
  float scale;

  float at(Index j) const { return each ? each[j] : scale; }
  SDROP_INLINE Vector vector(Index j, Index live) const {
    return each ? load_first(each + j, live) : broadcast(scale);
  }
};

inline Factors factors_at(const Site& site, Index step, Index column) {
  if (!site.factor) return {nullptr, site.scale};
  return {site.factor + step * site.factor_step + column * site.factor_row, site.scale};
}

// Rows that keep the same neurons and are multiplied together.
struct Segment {
  Index first_row;
  Index rows;
  Kept kept;
};

inline std::vector<Segment> segments(const Site& site, const Steps& steps) {
  std::vector<Segment> found;
  if (is_constant(site)) {
    for (Index first = 0; first < steps.rows; first += kConstantRows)
      found.push_back({first, std::min(kConstantRows, steps.rows - first), kept_at(site, 0)});
  } else {
    for (Index t = 0; t < steps.count; ++t)
      found.push_back({steps.starts[t], steps.sizes[t], kept_at(site, t)});
  }
  return found;
}

// The step and the sequence of each row.
struct RowPlaces {
  std::vector<Index> step, column;

  explicit RowPlaces(const Steps& steps) : step(steps.rows), column(steps.rows) {
    for (Index t = 0; t < steps.count; ++t)
      for (Index b = 0; b < steps.sizes[t]; ++b) {
        step[steps.starts[t] + b] = t;
        column[steps.starts[t] + b] = b;
      }
  }
};

// kLanes rows times their factors into columns [0, kLanes) of `to`, (size, to_row).
template <typename RowAt, typename FactorsAt>
SDROP_INLINE void transpose_rows(Index rows, Index size, const RowAt& row_at,
                                 const FactorsAt& factors_at, float* to, Index to_row) {
  for (Index j = 0; j < size; j += kLanes) {
    const Index live = std::min<Index>(kLanes, size - j);
    Vector square[kLanes];
    for (Index i = 0; i < kLanes; ++i)
      square[i] = i < rows ? load_first(row_at(i) + j, live) * factors_at(i).vector(j, live)
                           : Vector{};
    transpose(square);
    for (Index i = 0; i < live; ++i) store(to + (j + i) * to_row, square[i]);
  }
}

// (rows, size) at `x` -> (chunks of rows, size, kChunk), dropped.
inline void drop_transposed(const float* x, const Site& site, const RowPlaces& places,
                            const Segment& segment, float* to) {
  for (Index first = 0; first < segment.rows; first += kLanes) {
    const Index row = segment.first_row + first;
    transpose_rows(
        std::min<Index>(kLanes, segment.rows - first), site.size,
        [&](Index i) { return x + (row + i) * site.size; },
        [&](Index i) { return factors_at(site, places.step[row + i], places.column[row + i]); },
        to + chunked(first, site.size), kChunk);
  }
}

// The kept elements of row `row` of `rows`, in groups of columns (see `grouped`).
inline void drop_row(const float* x, Kept kept, Factors factors, Index row, Index rows,
                     float* to) {
  for (Index first = 0; first < kept.count; first += kAccumulatedRows) {
    const Index height = std::min(kAccumulatedRows, kept.count - first);
    float* group = to + grouped(first, rows) + row * kAccumulatedRows;
    for (Index i = 0; i < height; ++i) {
      const Index neuron = kept.neurons[first + i];
      group[i] = x[neuron] * factors.at(neuron);
    }
  }
}

// The other way: gradients of the kept elements into a whole row, the others exactly 0.
inline void restore_row(const float* grad, Kept kept, Factors factors, Index size, float* to) {
  if (kept.count < size) std::fill(to, to + size, 0.0f);
  for (Index j = 0; j < kept.count; ++j) {
    const Index neuron = kept.neurons[j];
    to[neuron] = grad[j] * factors.at(neuron);
  }
}

}  // namespace sdrop::SDROP_CAPABILITY
