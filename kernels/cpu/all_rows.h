// The three products of a site over all rows of the sequence at once.
//
// The weights are the outer loop and time the inner one, so that they are read from memory once a
// sequence, whatever the steps keep.
#pragma once

#include <vector>

#include "dropped.h"
#include "panel.h"
#include "parallel.h"
#include "product.h"

namespace sdrop::SDROP_CAPABILITY {

// Fewer rows than this read the weights where they are; a copy would cost more than it saves.
constexpr Index kRowsWorthPacking = 16;

// Where the data of each segment begins, in units of `width(segment)`.
template <typename Width>
std::vector<Index> offsets(const std::vector<Segment>& segments, const Width& width) {
  std::vector<Index> starts{0};
  for (const Segment& segment : segments) starts.push_back(starts.back() + width(segment));
  return starts;
}

inline Index kept_work(const std::vector<Segment>& segments) {
  Index work = 0;
  for (const Segment& segment : segments) work += segment.rows * segment.kept.count;
  return work;
}

// A matrix of rows, as the gates (padded) or the output of a linear layer lie in memory.
struct Rows {
  float* data;
  Index row;          // from one row to the next
  Index hidden_size;  // padded, where they are gates
};

class ForwardProduct {
 public:
  ForwardProduct(const Site& site, const Steps& steps, Panels panels, const float* x,
                 ParallelFor run)
      : site_(site), panels_(panels), run_(run), rows_(steps.rows),
        segments_(segments(site, steps)),
        starts_(offsets(segments_, [&](const Segment& segment) {
          return round_up(segment.rows, kChunk) * site.size;
        })),
        dropped_(starts_.back()) {
    const RowPlaces places(steps);
    parallel(run, segments_.size(), site.size * steps.batch, [&](Index begin, Index end) {
      for (Index s = begin; s < end; ++s)
        drop_transposed(x, site, places, segments_[s], dropped_.data() + starts_[s]);
    });
  }

  // target = drop(x) W + bias.
  void operator()(const float* bias, Rows target) const {
    parallel(run_, panels_.count(), kept_work(segments_) * kPanelWidth,
             [&](Index begin, Index end) {
               for (Index panel = begin; panel < end; ++panel) one_panel(panel, bias, target);
             });
  }

 private:
  void one_panel(Index panel, const float* bias, Rows target) const {
    const Columns columns = panels_.at(panel, panels_.columns / 4);
    const Columns to = panels_.at(panel, target.hidden_size);
    alignas(64) float start[kPanelWidth] = {};
    if (bias) pack_panel(bias, 0, 1, columns, start);
    if (rows_ < kRowsWorthPacking && columns.full())
      return all_segments(start, target, to, [&](const Segment& segment) {
        return RowsInPlace{site_.weight + columns.first, segment.kept.neurons, panels_.columns,
                           columns.stride};
      });
    float* packed = scratch<0>(site_.size * kPanelWidth);
    pack_panel(site_.weight, panels_.columns, site_.size, columns, packed);
    all_segments(start, target, to, [&](const Segment& segment) {
      return PackedRows<true>{packed, segment.kept.neurons};
    });
  }

  template <typename WeightsOf>
  void all_segments(const float* start, Rows target, Columns to,
                    const WeightsOf& weights_of) const {
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      const Segment& segment = segments_[s];
      const auto multiply = [&](Target sums) {
        multiply_panel(segment.rows, segment.kept.count, weights_of(segment),
                       dropped_.data() + starts_[s], site_.size * kChunk,
                       {start, 0, kLanes}, sums);
      };
      float* rows = target.data + segment.first_row * target.row;
      if (to.full()) {
        multiply({rows + to.first, target.row, to.stride});
      } else {
        float* whole = scratch<1>(segment.rows * kPanelWidth);
        multiply({whole, kPanelWidth, kLanes});
        unpack_panel(whole, segment.rows, to, rows, target.row);
      }
    }
  }

  Site site_;
  Panels panels_;
  ParallelFor run_;
  Index rows_;
  std::vector<Segment> segments_;
  std::vector<Index> starts_;
  Buffer dropped_;
};

// Columns that a pass of the data gradient reads: of the weight, and of the gradient's rows.
struct ColumnBlock {
  Index weight_column;
  Index grad_column;
  Index count;
};

inline std::vector<ColumnBlock> column_blocks(Panels panels, Index padded_hidden_size) {
  std::vector<ColumnBlock> blocks;
  const Index parts = panels.gates ? 4 : 1, size = panels.columns / parts;
  for (Index part = 0; part < parts; ++part)
    for (Index first = 0; first < size; first += kGradientBlock)
      blocks.push_back({part * size + first, part * padded_hidden_size + first,
                        std::min(kGradientBlock, size - first)});
  return blocks;
}

// Kept neurons that the data gradient takes together: two vectors of them.
constexpr Index kGroup = 2 * kLanes;

// W[kept][columns], transposed: (count, kGroup), zeroes where fewer neurons are left.
inline void gather_transposed(const float* weight, Index weight_row, const std::int32_t* kept,
                              Index live, Index count, float* to) {
  for (Index half = 0; half < live; half += kLanes) {
    const float* rows[kLanes];
    const Index here = std::min<Index>(kLanes, live - half);
    for (Index i = 0; i < here; ++i) rows[i] = weight + kept[half + i] * weight_row;
    for (Index n = 0; n < count; n += kLanes) {
      Vector square[kLanes];
#pragma GCC unroll 16
      for (Index i = 0; i < kLanes; ++i)
        square[i] = i < here ? load_first(rows[i] + n, count - n) : Vector{};
      transpose(square);
#pragma GCC unroll 16
      for (Index i = 0; i < kLanes; ++i) store(to + (n + i) * kGroup + half, square[i]);
    }
  }
}

// grad (rows, kept) += or = G W[kept]^T over one block of columns, for groups [begin, end) of kept
// neurons. `grads` is G transposed, in chunks of rows: (chunks, grad_chunk / kChunk, kChunk).
inline void data_gradient(const Site& site, Index weight_row, const ColumnBlock& block, Kept kept,
                          Index begin, Index end, Index rows, const float* grads, Index grad_chunk,
                          bool add, float* to, Index to_row) {
  static const float zeroes[kGroup] = {};
  float* packed = scratch<2>(kGradientBlock * kGroup);
  for (Index group = begin; group < end; ++group) {
    const Index first = group * kGroup, live = std::min(kGroup, kept.count - first);
    gather_transposed(site.weight + block.weight_column, weight_row, kept.neurons + first, live,
                      block.count, packed);
    for (Index row = 0; row < rows; row += kChunk) {
      const Index here = std::min(kChunk, rows - row);
      const float* chunk = grads + row / kChunk * grad_chunk;
      const Target target{to + row * to_row + first, to_row, kLanes};
      const Source start = add ? Source{target.data, to_row, kLanes} : Source{zeroes, 0, kLanes};
      if (live > kLanes)
        multiply_rows<2>(here, block.count, GatheredRows{packed}, chunk, start, target);
      else
        multiply_rows<1>(here, block.count, GatheredRows{packed}, chunk, start, target);
    }
  }
}

// `count` columns of `rows` rows, transposed to (chunks of rows, count, kChunk).
inline void transpose_columns(const float* from, Index from_row, Index rows, Index count,
                              float* to) {
  for (Index r = 0; r < rows; r += kLanes)
    transpose_rows(
        std::min<Index>(kLanes, rows - r), count,
        [&](Index i) { return from + (r + i) * from_row; },
        [](Index) { return Factors{nullptr, 1.0f}; }, to + chunked(r, count), kChunk);
}

// grad_x = drop'(G W^T) for all rows.
inline void all_data_gradients(const Site& site, const Steps& steps, Panels panels, Rows grad,
                               float* grad_x, ParallelFor run) {
  const auto parts = segments(site, steps);
  const RowPlaces places(steps);
  const auto blocks = column_blocks(panels, grad.hidden_size);
  const Index width = round_up(most_kept(site), kGroup);
  const auto work = kept_work(parts) / std::max<Index>(1, parts.size()) * panels.columns;
  parallel(run, parts.size(), work, [&](Index begin, Index end) {
    const Index base = parts[begin].first_row;
    const Index rows = parts[end - 1].first_row + parts[end - 1].rows - base;
    float* compact = scratch<3>(rows * width);
    for (const ColumnBlock& block : blocks)
      for (Index s = begin; s < end; ++s) {
        const auto& [first_row, count, kept] = parts[s];
        float* grads = scratch<4>(kGradientBlock * round_up(count, kChunk));
        transpose_columns(grad.data + first_row * grad.row + block.grad_column, grad.row, count,
                          block.count, grads);
        data_gradient(site, panels.columns, block, kept, 0, divide_up(kept.count, kGroup), count,
                      grads, block.count * kChunk, &block != &blocks.front(), compact + (first_row - base) * width,
                      width);
      }
    for (Index s = begin; s < end; ++s)
      for (Index row = parts[s].first_row; row < parts[s].first_row + parts[s].rows; ++row)
        restore_row(compact + (row - base) * width, parts[s].kept,
                    factors_at(site, places.step[row], places.column[row]), site.size,
                    grad_x + row * site.size);
  });
}

// grad_W = drop(x)^T G, where `x_at(row)` is row `row` of x; grad_bias too, where it is not null.
template <typename RowAt>
void all_weight_gradients(const Site& site, const Steps& steps, Panels panels, Rows grad,
                          const RowAt& x_at, float* grad_weight, float* grad_bias,
                          ParallelFor run) {
  const auto parts = segments(site, steps);
  const RowPlaces places(steps);
  const auto starts =
      offsets(parts, [](const Segment& part) {
        return part.rows * round_up(part.kept.count, kAccumulatedRows);
      });
  Buffer dropped(starts.back());
  parallel(run, parts.size(), site.size * steps.batch, [&](Index begin, Index end) {
    for (Index s = begin; s < end; ++s)
      for (Index i = 0; i < parts[s].rows; ++i) {
        const Index row = parts[s].first_row + i;
        drop_row(x_at(row), parts[s].kept,
                 factors_at(site, places.step[row], places.column[row]), i, parts[s].rows,
                 dropped.data() + starts[s]);
      }
  });
  parallel(run, panels.count(), kept_work(parts) * kPanelWidth, [&](Index begin, Index end) {
    float* sums = scratch<0>(site.size * kPanelWidth);
    for (Index panel = begin; panel < end; ++panel) {
      std::fill(sums, sums + site.size * kPanelWidth, 0.0f);
      alignas(64) float bias[kPanelWidth] = {};
      const Columns from = panels.at(panel, grad.hidden_size);
      for (std::size_t s = 0; s < parts.size(); ++s) {
        const auto& [first_row, rows, kept] = parts[s];
        float* slice = scratch<1>(rows * kPanelWidth);
        pack_panel(grad.data + first_row * grad.row, grad.row, rows, from, slice);
        accumulate_panel(kept.count, kept.neurons, rows, dropped.data() + starts[s], slice, sums);
        if (grad_bias)
          for (Index i = 0; i < rows; ++i)
            for (Index j = 0; j < kPanelWidth; ++j) bias[j] += slice[i * kPanelWidth + j];
      }
      const Columns to = panels.at(panel, panels.columns / 4);
      unpack_panel(sums, site.size, to, grad_weight, panels.columns);
      if (grad_bias) unpack_panel(bias, 1, to, grad_bias, 0);
    }
  });
}

}  // namespace sdrop::SDROP_CAPABILITY
