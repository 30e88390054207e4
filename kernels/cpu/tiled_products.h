// The three products of a site in tiles; the counterpart of product.h, data_gradient.h and the
// weight gradients of all_rows.h.
#pragma once

#include <algorithm>
#include <vector>

#include "dropped.h"
#include "panel.h"
#include "parallel.h"
#include "tiles.h"

namespace sdrop::SDROP_CAPABILITY {

// ---- Forward: target = start + drop(x) W[kept].

// The kept elements of a segment's rows at `x`, dropped, as A.
inline void drop_tiled(const float* x, const Site& site, const RowPlaces& places,
                       const Segment& segment, float* data) {
  const TiledRows to{data, segment.rows};
  to.clear_last_block(segment.kept.count);
  x += segment.first_row * site.size;
  for (Index row = 0; row < segment.rows; ++row, x += site.size) {
    const Index place = segment.first_row + row;
    const Factors factors = factors_at(site, places.step[place], places.column[place]);
    for (Index k = 0; k < segment.kept.count; k += kLanes) {
      const std::int32_t* neurons = segment.kept.neurons + k;
      Vector value = gather(x, neurons);
      value *= factors.each ? gather(factors.each, neurons) : broadcast(factors.scale);
      store_first(to.at(row, k), value, segment.kept.count - k);
    }
  }
}

// A panel has two lines of weights a row: those of its first two vectors, and of the others.
constexpr Index kLinesOfPanel = kPanelVectors / 2;

// Writes tiles of B: kept rows from 2 * kTileSide * block on of the line at rows.data, interleaved.
// What lies `ahead` of them is asked for.
SDROP_INLINE void interleave_block(const PackedPairs& rows, Index count, Index block, Index ahead,
                                   float* to) {
  const PackedPairs here = rows.from(block * kTileSide);
  const Index pairs = std::min(kTileSide, divide_up(count, 2) - block * kTileSide);
  const auto write = [&](Index pair) __attribute__((always_inline)) {
    const auto row = here.row(pair);
    prefetch_far(row.low + ahead);
    prefetch_far(row.high + ahead);
    store(to + pair * kLanes, here.vector(row, 0));
    store(to + kTileWords + pair * kLanes, here.vector(row, 1));
  };
  if (pairs == kTileSide) {
#pragma GCC unroll 4
    for (Index pair = 0; pair < kTileSide; ++pair) write(pair);
    return;
  }
  Index pair = 0;
  for (; pair < pairs; ++pair) write(pair);
  for (; pair < kTileSide; ++pair) {
    store(to + pair * kLanes, Vector{});
    store(to + kTileWords + pair * kLanes, Vector{});
  }
}

// target = start + A B[kept] for `panels` panels that lie side by side. The weights of the panels
// after them, which are asked for meanwhile, lie `next_group` behind them, or nowhere if that is 0.
inline void multiply_panels_in_tiles(Index panels, const PanelProduct<PackedPairs>* products,
                                     Index rows, Index count, const TiledRows& a,
                                     Index next_group) {
  const Index blocks = divide_up(count, kTileNumbers), parts = divide_up(rows, kBlockOfRows);
  // One block of rows uses each tile of weights once.
  const Index slots = parts == 1 ? 2 : std::max<Index>(1, blocks);
  float* words = scratch<8>(slots * 2 * kTileWords);
  const auto slot = [&](Index block) { return words + block % slots * 2 * kTileWords; };
  TileUnit unit;
  const Index lines = panels * kLinesOfPanel;
  for (Index line = 0; line < lines; ++line) {
    const auto& [weights, start, target] = products[line / kLinesOfPanel];
    const Index vector = line % kLinesOfPanel * 2;
    PackedPairs line_rows = weights;
    line_rows.data += line % kLinesOfPanel * kLanes;
    const Index ahead = line + 1 < lines ? kLanes
                        : next_group > 0 ? next_group - line * kLanes
                                         : 0;
    for (Index part = 0, first = 0; part < parts; ++part) {
      const Index here = divide_up(rows - first, parts - part);
      in_tiles(unit, here, true, [&](const auto& sums) __attribute__((always_inline)) {
        sums.load(start.data + first * start.row + vector * start.vector, start.row,
                  start.vector);
        const auto make = [&](Index block) __attribute__((always_inline)) {
          if (part == 0) interleave_block(line_rows, count, block, ahead, slot(block));
        };
        add_blocks(sums, blocks, make, [&](Index block) { return a.block(block, first); }, slot,
                   kLanes, kTileWords);
        sums.store(target.data + first * target.row + vector * target.vector, target.row,
                   target.vector);
      });
      first += here;
    }
  }
}

// ---- Data gradient: sums = or += W[kept] G^T, see data_gradient.h.

// Kept neurons [begin, end) and one chunk of so many vectors.
inline void chunk_gradient_in_tiles(const float* weight, Index weight_row, Kept kept, Index begin,
                                    Index end, Index count, const float* grads, Index vectors,
                                    bool add, float* sums) {
  const Index pitch = vectors * kLanes, blocks = divide_up(count, kTileSide);
  const Index whole = count / kTileSide, rest = count % kTileSide;
  alignas(64) float last[kTileSide * kChunk];  // the last tile of B, filled up with zeroes
  if (rest > 0) {
    std::copy_n(grads + whole * kTileSide * pitch, rest * pitch, last);
    std::fill_n(last + rest * pitch, (kTileSide - rest) * pitch, 0.0f);
  }
  float* words = scratch<8>(blocks * kBlockOfRows * kTileSide);
  TileUnit unit;
  for (Index k = begin; k < end; k += kBlockOfRows) {
    const Index here = std::min(kBlockOfRows, end - k);
    const float *rows[kBlockOfRows], *ahead[kBlockOfRows];
    for (Index i = 0; i < here; ++i) {
      rows[i] = weight + kept.neurons[k + i] * weight_row;
      ahead[i] = weight + kept.neurons[std::min(k + kBlockOfRows + i, kept.count - 1)] * weight_row;
    }
    const TiledRows a{words, here};
    for (Index vector = 0; vector < vectors; vector += 2)
      in_tiles(unit, here, vector + 1 < vectors,
               [&](const auto& tile_sums) __attribute__((always_inline)) {
        float* to = sums + k * pitch + vector * kLanes;
        if (add)
          tile_sums.load(to, pitch, kLanes);
        else
          tile_sums.clear();
        const auto make = [&](Index block) __attribute__((always_inline)) {
          if (vector > 0) return;
          const Index place = block * kTileSide;
          for (Index i = 0; i < here; ++i) {
            prefetch_far(ahead[i] + place);
            store(a.block(block, i), load_first(rows[i] + place, count - place));
          }
        };
        const auto b = [&](Index block) {
          return (block < whole ? grads + block * kTileSide * pitch : last) + vector * kLanes;
        };
        add_blocks(tile_sums, blocks, make, [&](Index block) { return a.block(block, 0); }, b,
                   pitch, kLanes);
        tile_sums.store(to, pitch, kLanes);
      });
  }
}

// ---- Weight gradient: grad_W = drop(x)^T G.
//
// The sum runs over all rows of the sequence, with zeroes for what a step dropped: sums then stay in
// the tiles. Those of each step alone would have to be added to scattered rows of the gradient,
// which takes longer than the products that it saves, up to some fifty sequences.

// Rows of the sequence whose products are added up before the next ones' begin.
constexpr Index kRowsTogether = 1024;

// Panels that are multiplied together: one reading of the activations serves them all.
constexpr Index kPanelsOfGradient = 2;

// drop(x)^T of rows [first, first + rows), at most kTileNumbers, as a block of A.
template <typename RowAt>
void tile_transposed(const Site& site, const RowPlaces& places, const RowAt& x_at, Index first,
                     Index rows, float* to) {
  std::fill_n(to, site.size * kTileSide, 0.0f);
  float* dropped = scratch<9>(kTileNumbers * site.size);
  for (Index i = 0; i < rows; ++i) {
    const Index step = places.step[first + i];
    const Kept kept = kept_at(site, step);
    const Factors of = factors_at(site, step, places.column[first + i]);
    const float* x = x_at(first + i);
    float* row = dropped + i * site.size;
    if (kept.count < site.size) std::fill_n(row, site.size, 0.0f);
    for (Index k = 0; k < kept.count; ++k)
      row[kept.neurons[k]] = x[kept.neurons[k]] * of.at(kept.neurons[k]);
  }
  for (Index j = 0; j < site.size; j += kLanes) {
    const Index live = std::min<Index>(kLanes, site.size - j);
    for (Index half = 0; half < rows; half += kLanes) {
      Vector square[kLanes] = {};
      for (Index i = 0; i < std::min<Index>(kLanes, rows - half); ++i)
        square[i] = load_first(dropped + (half + i) * site.size + j, live);
      transpose(square);
      for (Index lane = 0; lane < live; ++lane)
        store_first(reinterpret_cast<Half*>(to + (j + lane) * kTileSide) + half, square[lane],
                    kLanes);
    }
  }
}

// Rows of G as tiles of B, (blocks, kPanelVectors, kTileWords); their sums are added to `bias`.
inline void tile_gradients(const float* grads, Index rows, float* to, Vector* bias) {
  for (Index row = 0; row < round_up(rows, kTileNumbers); row += 2)
    for (int j = 0; j < kPanelVectors; ++j) {
      const float* from = grads + row * kPanelWidth + j * kLanes;
      const Vector low = row < rows ? load(from) : Vector{};
      const Vector high = row + 1 < rows ? load(from + kPanelWidth) : Vector{};
      store(to + (row / kTileNumbers * kPanelVectors + j) * kTileWords +
                row % kTileNumbers / 2 * kLanes,
            pair_up(low, high));
      bias[j] += low + high;
    }
}

// As all_weight_gradients.
template <typename RowAt, typename GradsAt>
void weight_gradients_in_tiles(const Site& site, const Steps& steps, Panels panels,
                               const RowAt& x_at, const GradsAt& grads_at, void* grad_weight,
                               float* grad_bias, ParallelFor run) {
  const RowPlaces places(steps);
  const Index size = site.size, all_blocks = divide_up(steps.rows, kTileNumbers);
  const CallBuffer<6> dropped(TiledRows::size(steps.rows, size));
  const TiledRows a{dropped.data(), size};
  parallel(run, all_blocks, size * kTileNumbers, [&](Index begin, Index end) {
    for (Index block = begin; block < end; ++block) {
      const Index first = block * kTileNumbers;
      tile_transposed(site, places, x_at, first, std::min(kTileNumbers, steps.rows - first),
                      a.block(block, 0));
    }
  });
  const auto one_group = [&](Index first_panel, Index count) {
    float* sums = scratch<0>(count * size * kPanelWidth);
    Vector bias[kPanelsOfGradient][kPanelVectors] = {};
    TileUnit unit;
    for (Index first = 0; first < steps.rows; first += kRowsTogether) {
      const Index rows = std::min(kRowsTogether, steps.rows - first);
      const Index blocks = divide_up(rows, kTileNumbers);
      const Index panel_words = blocks * kPanelVectors * kTileWords;
      float* words = scratch<5>(count * panel_words);
      for (Index i = 0; i < count; ++i)
        tile_gradients(grads_at(first_panel + i, Segment{first, rows, {}}), rows,
                       words + i * panel_words, bias[i]);
      for (Index neuron = 0; neuron < size; neuron += kBlockOfRows)
        for (Index i = 0; i < count; ++i)
          for (Index vector = 0; vector < kPanelVectors; vector += 2)
            in_tiles(unit, std::min(kBlockOfRows, size - neuron), true,
                     [&](const auto& tile_sums) __attribute__((always_inline)) {
              float* to = sums + (i * size + neuron) * kPanelWidth + vector * kLanes;
              if (first > 0)
                tile_sums.load(to, kPanelWidth, kLanes);
              else
                tile_sums.clear();
              const float* b = words + i * panel_words + vector * kTileWords;
              add_blocks(
                  tile_sums, blocks, [](Index) {},
                  [&](Index block) { return a.block(first / kTileNumbers + block, neuron); },
                  [&](Index block) { return b + block * kPanelVectors * kTileWords; }, kLanes,
                  kTileWords);
              tile_sums.store(to, kPanelWidth, kLanes);
            });
    }
    for (Index i = 0; i < count; ++i) {
      const Columns to = panels.at(first_panel + i);
      unpack_panel(sums + i * size * kPanelWidth, size, to, static_cast<Half*>(grad_weight),
                   panels.columns);
      if (grad_bias)
        for (int j = 0; j < kPanelVectors; ++j)
          store_first(grad_bias + to.first + j * to.stride, bias[i][j], to.live[j]);
    }
  };
  parallel(run, divide_up(panels.count(), kPanelsOfGradient),
           steps.rows * size * kPanelWidth * kPanelsOfGradient / 16, [&](Index begin, Index end) {
             for (Index group = begin; group < end; ++group) {
               const Index first = group * kPanelsOfGradient;
               one_group(first, std::min(kPanelsOfGradient, panels.count() - first));
             }
           });
}

}  // namespace sdrop::SDROP_CAPABILITY
