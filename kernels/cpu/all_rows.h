// The three products of a site over all rows of the sequence at once.
//
// The weights are the outer loop and time the inner one, so that they are read from memory once a
// sequence, whatever the steps keep.
#pragma once

#include <vector>

#include "data_gradient.h"
#include "dropped.h"
#include "few_rows.h"
#include "panel.h"
#include "parallel.h"
#include "product.h"
#include "tiled_products.h"

namespace sdrop::SDROP_CAPABILITY {

// Where the data of each segment begins, in units of `width(segment)`.
template <typename Width>
std::vector<Index> offsets(const std::vector<Segment>& segments, const Width& width) {
  std::vector<Index> starts{0};
  for (const Segment& segment : segments) starts.push_back(starts.back() + width(segment));
  return starts;
}

inline Index most_rows(const std::vector<Segment>& segments) {
  Index most = 0;
  for (const Segment& segment : segments) most = std::max(most, segment.rows);
  return most;
}

inline Index kept_work(const std::vector<Segment>& segments) {
  Index work = 0;
  for (const Segment& segment : segments) work += segment.rows * segment.kept.count;
  return work;
}

// The output of a plain layer, (rows, columns), seen panel by panel like GateRows.
struct MatrixRows {
  float* data;
  Index columns;

  Target at(Index panel, Index row) const {
    return {data + row * columns + panel * kPanelWidth, columns, kLanes};
  }

  // The first `live` elements of a vector of columns; there is but one piece of them.
  SDROP_INLINE void put(Index, Index column, Index row, Vector value, Index live) const {
    store_first(data + row * columns + column, value, live);
  }
};

template <typename Precision>
class ForwardProduct {
 public:
  ForwardProduct(const Site& site, const Steps& steps, Panels panels, const float* x,
                 ParallelFor run)
      : site_(site), panels_(panels), run_(run), rows_(steps.rows),
        segments_(segments(site, steps)),
        starts_(offsets(segments_, [](const Segment& segment) {
          return kInTiles ? TiledRows::size(segment.kept.count, segment.rows)
                          : transposed_size(words<Precision>(segment.kept.count), segment.rows);
        })),
        dropped_(starts_.back()) {
    const RowPlaces places(steps);
    parallel(run, segments_.size(), site.size * steps.batch, [&](Index begin, Index end) {
      for (Index s = begin; s < end; ++s)
        if constexpr (kInTiles)
          drop_tiled(x, site, places, segments_[s], dropped_.data() + starts_[s]);
        else
          drop_transposed<Precision>(x, site, places, segments_[s], dropped_.data() + starts_[s]);
    });
  }

  // target = drop(x) W + bias.
  template <typename Rows>
  void operator()(const float* bias, const Rows& target) const {
    if constexpr (Precision::kPerWord == 1)
      if (rows_ <= kFewRows)
        return parallel_stripes(run_, width(), kept_work(segments_) * pieces(),
                                [&](Stripe stripe) { one_stripe(stripe, bias, target); });
    parallel(run_, divide_up(panels_.count(), kPanelsTogether), kept_work(segments_) * kGroupWidth,
             [&](Index begin, Index end) {
               for (Index group = begin; group < end; ++group) one_group(group, bias, target);
             });
  }

 private:
  // Words of a row of panels that lie side by side.
  static constexpr Index kPanelWords = words<Precision>(kPanelWidth);
  static constexpr Index kGroupWords = kPanelsTogether * kPanelWords;

  // Panels that are multiplied together.
  struct Group {
    Index count;
    Columns columns[kPanelsTogether];
    alignas(64) float start[kPanelsTogether][kPanelWidth];
    float* packed;  // (size, kPanelsTogether, kPanelWords)
  };

  template <typename Rows>
  void one_group(Index number, const float* bias, const Rows& target) const {
    const Index first = number * kPanelsTogether;
    Group group{std::min(kPanelsTogether, panels_.count() - first), {}, {}, nullptr};
    for (Index i = 0; i < group.count; ++i) {
      group.columns[i] = panels_.at(first + i);
      if (bias) pack_panel(bias, 0, 1, group.columns[i], group.start[i]);
    }
    const Columns& last = group.columns[group.count - 1];
    pack(group);
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      const auto& [first_row, rows, kept] = segments_[s];
      Target sums[kPanelsTogether];
      for (Index i = 0; i < group.count; ++i) sums[i] = target.at(first + i, first_row);
      if (panels_.gates || last.full()) {
        multiply(s, group, sums);
      } else {
        const Target end = sums[group.count - 1];
        float* whole = scratch<1>(rows * kPanelWidth);
        sums[group.count - 1] = {whole, kPanelWidth, kLanes};
        multiply(s, group, sums);
        Columns tail = last;
        tail.first = 0;
        unpack_panel(whole, rows, tail, end.data, end.row);
      }
    }
  }

  // Row by row: each row of the weight is looked up once.
  void pack(Group& group) const {
    group.packed = scratch<0>(site_.size * kGroupWords);
    for (Index row = 0; row < site_.size; ++row)
      for (Index i = 0; i < group.count; ++i)
        pack_panel(weight_of<Precision>(site_) + row * panels_.columns, panels_.columns, 1,
                   group.columns[i], group.packed + row * kGroupWords + i * kPanelWords);
  }

  void multiply(std::size_t s, const Group& group, const Target* sums) const {
    const auto& [first_row, rows, kept] = segments_[s];
    const auto rows_of = [&](Index i) {
      return packed_rows<Precision>(group.packed + i * kPanelWords, kGroupWords, kept.neurons,
                                    kept.count);
    };
    PanelProduct<decltype(rows_of(0))> products[kPanelsTogether];
    for (Index i = 0; i < group.count; ++i)
      products[i] = {rows_of(i), {group.start[i], 0, kLanes}, sums[i]};
    if constexpr (kInTiles)
      return multiply_panels_in_tiles(group.count, products, rows, kept.count,
                                      {dropped_.data() + starts_[s], rows}, 0);
    const float* end = dropped_.data() + starts_.back();
    multiply_panels(group.count, products, rows, words<Precision>(kept.count),
                    dropped_.data() + starts_[s],
                    [&](const Next& next) {
                      const Index left = end - next.activations;
                      return ActivationsAhead(next.activations, std::min(next.size, left));
                    });
  }

  // An LSTM's columns are those of four gates, whose stripes of the same units belong together.
  Index pieces() const { return panels_.gates ? 4 : 1; }
  Index width() const { return panels_.columns / pieces(); }

  template <typename Rows>
  void one_stripe(Stripe stripe, const float* bias, const Rows& target) const {
    const Index sums_width = round_up(stripe.count, kPanelWidth);
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      const auto& [first_row, rows, kept] = segments_[s];
      float* sums = scratch<0>(rows * sums_width);
      for (Index piece = 0; piece < pieces(); ++piece) {
        const Index first = piece * width() + stripe.first;
        multiply_few_rows(weight_of<Float32>(site_) + first, panels_.columns, stripe.count, kept,
                          dropped_.data() + starts_[s], rows, sums);
        for (Index column = 0; column < stripe.count; column += kLanes) {
          const Index live = std::min<Index>(kLanes, stripe.count - column);
          const Vector start = bias ? load_first(bias + first + column, live) : Vector{};
          for (Index row = 0; row < rows; ++row)
            target.put(piece, stripe.first + column, first_row + row,
                       load(sums + row * sums_width + column) + start, live);
        }
      }
    }
  }

  Site site_;
  Panels panels_;
  ParallelFor run_;
  Index rows_;
  std::vector<Segment> segments_;
  std::vector<Index> starts_;
  CallBuffer<6> dropped_;
};

// grad_x = drop'(G W^T) for all rows. `transpose_block(segment, block, to)` writes the transposed
// gradients of a segment and a block of columns. A row of the weight has so many numbers.
template <typename Precision, typename TransposeBlock>
void all_data_gradients(const Site& site, const Steps& steps, Index columns,
                        const TransposeBlock& transpose_block, float* grad_x, ParallelFor run) {
  const auto parts = segments(site, steps);
  const Index weight_row = words<Precision>(columns);
  const auto blocks = column_blocks(weight_row, most_rows(parts));
  const RowPlaces places(steps);
  const auto starts = offsets(parts, [](const Segment& part) {
    return transposed_size(part.kept.count, part.rows);
  });
  const auto work = kept_work(parts) / std::max<Index>(1, parts.size()) * columns;
  parallel(run, parts.size(), work, [&](Index begin, Index end) {
    float* sums = scratch<2>(starts[end] - starts[begin]);
    for (const ColumnBlock& block : blocks)
      for (Index s = begin; s < end; ++s) {
        const auto& [first_row, rows, kept] = parts[s];
        float* grads = scratch<3>(gradients_size(block.count, rows));
        transpose_block(parts[s], block, grads);
        data_gradient<Precision>(site, weight_row, block, kept, 0, kept.count,
                                 {grads, rows, block.count}, 0, &block != &blocks.front(),
                                 sums + starts[s] - starts[begin]);
      }
    for (Index s = begin; s < end; ++s)
      for (Index i = 0; i < parts[s].rows; ++i) {
        const Index row = parts[s].first_row + i;
        restore_row(sums + starts[s] - starts[begin], parts[s].kept,
                    factors_at(site, places.step[row], places.column[row]), i, parts[s].rows,
                    site.size, grad_x + row * site.size);
      }
  });
}

// A panel of gradients, (rows, kPanelWidth), as words along the rows.
template <typename Precision>
const float* row_words(const float* grads, Index rows) {
  if constexpr (Precision::kPerWord == 1) return grads;
  float* pairs = scratch<5>(words<Precision>(rows) * kPanelWidth);
  for (Index row = 0; row < rows; row += 2)
    for (Index j = 0; j < kPanelWidth; j += kLanes) {
      const float* low = grads + row * kPanelWidth + j;
      const Vector high = row + 1 < rows ? load(low + kPanelWidth) : Vector{};
      store(pairs + row / 2 * kPanelWidth + j, pair_up(load(low), high));
    }
  return pairs;
}

// grad_W = drop(x)^T G, where `x_at(row)` is row `row` of x and `grads_at(panel, segment)` is G,
// (rows, kPanelWidth); grad_bias too, where it is not null.
template <typename Precision, typename RowAt, typename GradsAt>
void all_weight_gradients(const Site& site, const Steps& steps, Panels panels, const RowAt& x_at,
                          const GradsAt& grads_at, void* grad_weight, float* grad_bias,
                          ParallelFor run) {
  if constexpr (kInTiles)
    return weight_gradients_in_tiles(site, steps, panels, x_at, grads_at, grad_weight, grad_bias,
                                     run);
  const auto parts = segments(site, steps);
  const RowPlaces places(steps);
  const auto starts = offsets(parts, [](const Segment& part) {
    return words<Precision>(part.rows) * round_up(part.kept.count, kTileRows);
  });
  const CallBuffer<6> dropped(starts.back());
  parallel(run, parts.size(), site.size * steps.batch, [&](Index begin, Index end) {
    for (Index s = begin; s < end; ++s)
      for (Index i = 0; i < parts[s].rows; ++i) {
        const Index row = parts[s].first_row + i;
        drop_row<Precision>(x_at(row), parts[s].kept,
                            factors_at(site, places.step[row], places.column[row]), i,
                            parts[s].rows, dropped.data() + starts[s]);
      }
  });
  parallel(run, panels.count(), kept_work(parts) * kPanelWidth, [&](Index begin, Index end) {
    float* sums = scratch<0>(site.size * kPanelWidth);
    for (Index panel = begin; panel < end; ++panel) {
      std::fill(sums, sums + site.size * kPanelWidth, 0.0f);
      Vector bias[kPanelVectors] = {};
      for (std::size_t s = 0; s < parts.size(); ++s) {
        const auto& [first_row, rows, kept] = parts[s];
        const float* grads = grads_at(panel, parts[s]);
        accumulate_panel<Precision>(kept.count, kept.neurons, words<Precision>(rows),
                                    dropped.data() + starts[s], row_words<Precision>(grads, rows),
                                    sums);
        if (grad_bias)
          for (Index i = 0; i < rows; ++i)
            for (int j = 0; j < kPanelVectors; ++j)
              bias[j] += load(grads + i * kPanelWidth + j * kLanes);
      }
      const Columns to = panels.at(panel);
      unpack_panel(sums, site.size, to, static_cast<typename Precision::Number*>(grad_weight),
                   panels.columns);
      if (grad_bias)
        for (int j = 0; j < kPanelVectors; ++j)
          store_first(grad_bias + to.first + j * to.stride, bias[j], to.live[j]);
    }
  });
}

}  // namespace sdrop::SDROP_CAPABILITY
