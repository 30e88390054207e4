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

// The weight's numbers.
template <typename Precision>
const typename Precision::Number* weight_of(const Site& site) {
  return static_cast<const typename Precision::Number*>(site.weight);
}

// `rows` rows of all neurons times their factors -> chunks of (words of kept, pitch), zeroes behind
// the last.
template <typename Precision, typename RowAt, typename FactorsAt>
void transpose_kept(Index rows, Index size, Kept kept, const RowAt& row_at,
                    const FactorsAt& factors_at, float* to) {
  for (Index first = 0; first < rows; first += kLanes) {
    const Chunk chunk = chunk_of(first, rows);
    const Index here = std::min<Index>(kLanes, rows - first);
    const Index count = words<Precision>(kept.count);
    float* columns = to + chunk.offset(count) + first - chunk.first_row;
    if (kept.count < count * Precision::kPerWord)
      store(columns + (count - 1) * chunk.pitch(), Vector{});
    for (Index k = 0; k < kept.count;) {
      const Index j = kept.neurons[k] / kLanes * kLanes, live = std::min<Index>(kLanes, size - j);
      Vector square[kLanes] = {};
      for (Index i = 0; i < here; ++i)
        square[i] = load_first(row_at(first + i) + j, live) * factors_at(first + i).vector(j, live);
      transpose(square);
      const Index begin = k;
      while (k < kept.count && kept.neurons[k] < j + kLanes) ++k;
      put_vectors<Precision>(columns, chunk.pitch(), begin, k,
                             [&](Index number) { return square[kept.neurons[number] - j]; });
    }
  }
}

// The rows of a segment at `x`, (rows, size), dropped.
template <typename Precision>
void drop_transposed(const float* x, const Site& site, const RowPlaces& places,
                     const Segment& segment, float* to) {
  const auto row_of = [&](Index i) { return segment.first_row + i; };
  transpose_kept<Precision>(
      segment.rows, site.size, segment.kept, [&](Index i) { return x + row_of(i) * site.size; },
      [&](Index i) { return factors_at(site, places.step[row_of(i)], places.column[row_of(i)]); },
      to);
}

// The kept elements of row `row` of `rows`, in groups of columns (see `grouped`); of bfloat16 numbers
// two rows make a word, and 0 stands beside the last of an odd number.
template <typename Precision>
void drop_row(const float* x, Kept kept, Factors factors, Index row, Index rows, float* to) {
  for (Index first = 0; first < kept.count; first += kTileRows) {
    const Index height = std::min<Index>(kTileRows, kept.count - first);
    float* group = to + grouped(first, words<Precision>(rows));
    for (Index i = 0; i < height; ++i) {
      const Index neuron = kept.neurons[first + i];
      put_number<Precision>(group, kTileRows, row, i, x[neuron] * factors.at(neuron));
      if (Precision::kPerWord == 2 && row + 1 == rows && row % 2 == 0)
        put_number<Precision>(group, kTileRows, row + 1, i, 0.0f);
    }
  }
}

// The other way: what a data gradient summed for row `row` of `rows` and each kept neuron, chunks of
// (kept, pitch), into a whole row; the others are exactly 0.
inline void restore_row(const float* grads, Kept kept, Factors factors, Index row, Index rows,
                        Index size, float* to) {
  const Chunk chunk = chunk_of(row, rows);
  const float* column = grads + chunk.offset(kept.count) + row - chunk.first_row;
  if (kept.count < size) std::fill(to, to + size, 0.0f);
  for (Index k = 0; k < kept.count; ++k) {
    const Index neuron = kept.neurons[k];
    to[neuron] = column[k * chunk.pitch()] * factors.at(neuron);
  }
}

}  // namespace sdrop::SDROP_CAPABILITY
