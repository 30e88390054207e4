// Which step runs when, and the state that it starts from.
#pragma once

#include <type_traits>

#include "dropped.h"
#include "tiles.h"

namespace sdrop::SDROP_CAPABILITY {

// Step t in the order in which the recurrence runs.
inline Index step_in_order(const Steps& steps, Index position) {
  return steps.reverse ? steps.count - 1 - position : position;
}

// The row that sequence b had in the step before the one at `position`, or -1 where it begins
// there.
inline Index row_before(const Steps& steps, Index position, Index b) {
  if (position == 0) return -1;
  const Index previous = step_in_order(steps, position - 1);
  return b < steps.sizes[previous] ? steps.starts[previous] + b : -1;
}

// h_{t-1}, dropped and transposed: chunks of (words of kept, pitch), what the hidden GEMM of a step
// reads. Two of them, since the units of a step that are done already write the next one's.
template <typename Precision>
class HiddenColumns {
 public:
  HiddenColumns(const Site& site, const Steps& steps)
      : site_(site), steps_(steps), panels_(divide_up(site.size, kLanes)) {
    for (Side& side : sides_) {
      side.columns.reserve(transposed_size(words<Precision>(most_kept(site)), steps.batch));
      side.first_kept.resize(panels_ + 1);
    }
  }

  const float* of_step(Index position) const { return sides_[position % 2].columns.data(); }

  // Before anything of the step is written.
  void prepare(Index position) {
    Side& side = sides_[position % 2];
    side.t = step_in_order(steps_, position);
    side.kept = kept_at(site_, side.t);
    Index k = 0;
    for (Index panel = 0; panel <= panels_; ++panel) {
      while (k < side.kept.count && side.kept.neurons[k] < panel * kLanes) ++k;
      side.first_kept[panel] = k;
    }
    if (side.kept.count % Precision::kPerWord > 0) clear_last_word(side);
  }

  // Sequences [first, end) begin at this step with their h_0.
  void begin_sequences(Index position, Index first, Index end, const float* h_0) {
    const Side& side = sides_[position % 2];
    for (Index b = first; b < end; ++b) {
      const Factors factors = factors_at(site_, side.t, b);
      const Chunk chunk = chunk_of(b, steps_.sizes[side.t]);
      float* columns = side.columns.data() + chunk.offset(words<Precision>(side.kept.count));
      for (Index k = 0; k < side.kept.count; ++k) {
        const Index j = side.kept.neurons[k];
        put_number<Precision>(columns, chunk.pitch(), k, b - chunk.first_row,
                              h_0[b * site_.size + j] * factors.at(j));
      }
    }
  }

  // The units of a panel in sequences [b, b + kLanes), b a multiple of kLanes: row i is sequence b
  // + i.
  SDROP_INLINE void write(Index position, Index panel, Index b, Vector (&hidden)[kLanes]) const {
    const Side& side = sides_[position % 2];
    const Index begin = side.first_kept[panel], end = side.first_kept[panel + 1];
    if (begin == end || b >= steps_.sizes[side.t]) return;
    transpose(hidden);
    const Chunk chunk = chunk_of(b, steps_.sizes[side.t]);
    float* columns = side.columns.data() + chunk.offset(words<Precision>(side.kept.count)) + b -
                     chunk.first_row;
    put_vectors<Precision>(columns, chunk.pitch(), begin, end, [&](Index k) {
      return hidden[side.kept.neurons[k] - panel * kLanes];
    });
  }

 private:
  // What the steps at even positions read, and those at odd ones.
  struct Side {
    Index t;
    Kept kept;
    std::vector<Index> first_kept;  // of each panel's units
    Buffer columns;
  };

  void clear_last_word(const Side& side) const {
    const Index rows = steps_.sizes[side.t], count = words<Precision>(side.kept.count);
    for (Index row = 0; row < rows; row += kChunk) {
      const Chunk chunk = chunk_of(row, rows);
      float* columns = side.columns.data() + chunk.offset(count);
      std::fill_n(columns + (count - 1) * chunk.pitch(), chunk.pitch(), 0.0f);
    }
  }

  const Site& site_;
  const Steps& steps_;
  Index panels_;
  Side sides_[2];
};

// The same as tiles read it: TiledRows.
class HiddenTiles {
 public:
  HiddenTiles(const Site& site, const Steps& steps)
      : site_(site), steps_(steps), panels_(divide_up(site.size, kLanes)) {
    for (Side& side : sides_) {
      side.words.reserve(TiledRows::size(most_kept(site), steps.batch));
      side.kept_units.resize(panels_);
      side.first_kept.resize(panels_ + 1);
    }
  }

  TiledRows of_step(Index position) const {
    const Side& side = sides_[position % 2];
    return {side.words.data(), steps_.sizes[side.t]};
  }

  void prepare(Index position) {
    Side& side = sides_[position % 2];
    side.t = step_in_order(steps_, position);
    const Kept kept = kept_at(site_, side.t);
    std::fill(side.kept_units.begin(), side.kept_units.end(), 0);
    for (Index k = 0; k < kept.count; ++k)
      side.kept_units[kept.neurons[k] / kLanes] |= std::uint32_t{1} << kept.neurons[k] % kLanes;
    for (Index panel = 0; panel < panels_; ++panel)
      side.first_kept[panel + 1] =
          side.first_kept[panel] + __builtin_popcount(side.kept_units[panel]);
    of_step(position).clear_last_block(kept.count);
  }

  void begin_sequences(Index position, Index first, Index end, const float* h_0) {
    const Side& side = sides_[position % 2];
    const Kept kept = kept_at(site_, side.t);
    const TiledRows to = of_step(position);
    for (Index b = first; b < end; ++b) {
      const Factors factors = factors_at(site_, side.t, b);
      for (Index k = 0; k < kept.count; ++k) {
        const Index j = kept.neurons[k];
        *to.at(b, k) = to_half(h_0[b * site_.size + j] * factors.at(j));
      }
    }
  }

  SDROP_INLINE void write(Index position, Index panel, Index b, Vector (&hidden)[kLanes]) const {
    const Side& side = sides_[position % 2];
    const Index begin = side.first_kept[panel], count = side.first_kept[panel + 1] - begin;
    const TiledRows to = of_step(position);
    if (count == 0) return;
    const Index here = std::min(count, kTileNumbers - begin % kTileNumbers);
    const Index rows = std::min<Index>(kLanes, to.rows - b);
    for (Index i = 0; i < rows; ++i) {
      const Vector kept = compress(hidden[i], side.kept_units[panel]);
      store_halves(to.at(b + i, begin), kept, 0, here);
      if (here < count) store_halves(to.at(b + i, begin + here), kept, here, count);
    }
  }

 private:
  struct Side {
    Index t;
    std::vector<std::uint32_t> kept_units;  // of each panel, a bit a unit
    std::vector<Index> first_kept;
    Buffer words;
  };

  const Site& site_;
  const Steps& steps_;
  Index panels_;
  Side sides_[2];
};

template <typename Precision>
using Hidden = std::conditional_t<kInTiles, HiddenTiles, HiddenColumns<Precision>>;

// Gates, or their gradients: (panels, rows, 4, kLanes) for whole vectors of units, so that what the
// owner of a panel reads and writes in a step lies together.
struct GateRows {
  float* data;
  Index rows;

  Target at(Index panel, Index row) const {
    return {data + (panel * rows + row) * kPanelWidth, kPanelWidth, kLanes};
  }

  // A vector of units, which begins a panel.
  SDROP_INLINE float* of_gate(Index gate, Index unit, Index row) const {
    return at(unit / kLanes, row).data + gate * kLanes;
  }
  SDROP_INLINE void put(Index gate, Index unit, Index row, Vector value, Index) const {
    store(of_gate(gate, unit, row), value);
  }

  // A panel of the next rows is a sequence's length away: no processor guesses that it comes next.
  SDROP_INLINE void ask(Index panel, Index row) const {
#pragma GCC unroll 4
    for (Index j = 0; j < kPanelWidth; j += kLine) prefetch(at(panel, row).data + j);
  }
};

// Cell states: (panels, rows, kLanes).
struct CellRows {
  float* data;
  Index rows;

  float* at(Index panel, Index row) const { return data + (panel * rows + row) * kLanes; }
};

}  // namespace sdrop::SDROP_CAPABILITY
