// An LSTM layer over a whole sequence, forward.
//
// The input GEMM runs for all steps at once. A step is then one parallel loop over panels of
// units: the owner of a panel multiplies its four gates and goes straight on with the pointwise
// part, while the sums are still in the first cache.
#pragma once

#include "all_rows.h"
#include "nonlinear.h"
#include "recurrence.h"

namespace sdrop::SDROP_CAPABILITY {

// Fewer steps than this, of few rows in all, read the recurrent weights where they are.
constexpr Index kStepsWorthPacking = 4;

template <typename Precision>
class ForwardRecurrence {
 public:
  ForwardRecurrence(const LstmForward& layer, ParallelFor run)
      : layer_(layer), steps_(layer.steps), run_(run), size_(layer.hidden_size),
        gates_{layer.gates, steps_.rows}, cells_{layer.cells, steps_.rows},
        panels_{4 * size_, true}, columns_(layer.hidden_site, steps_),
        few_(Precision::kPerWord == 1 && steps_.count < kStepsWorthPacking &&
             steps_.rows <= kFewRows),
        packed_(few_ ? 0 : groups() * size_ * kGroupWords) {
    if (!few_) pack_weights();
  }

  void operator()() {
    columns_.prepare(0);
    Index running = 0;
    for (Index position = 0; position < steps_.count; ++position) {
      const Index t = step_in_order(steps_, position), rows = steps_.sizes[t];
      if (rows > running) columns_.begin_sequences(position, running, rows, layer_.h_0);
      running = rows;
      const bool last = position + 1 == steps_.count;
      if (!last) columns_.prepare(position + 1);
      const Kept kept = kept_at(layer_.hidden_site, t);
      const Index work = rows * (kept.count + 8);
      if constexpr (Precision::kPerWord == 1)
        if (few_) {
          parallel_stripes(run_, size_, 4 * work,
                           [&](Stripe stripe) { one_stripe(stripe, position, t, kept); });
          continue;
        }
      parallel(run_, groups(), work * kGroupWidth, [&](Index begin, Index end) {
        for (Index group = begin; group < end; ++group) one_group(group, position, t, kept);
      });
    }
    finish();
  }

 private:
  Index groups() const { return divide_up(panels_.count(), kPanelsTogether); }

  // Words of a row of panels that lie side by side.
  static constexpr Index kPanelWords = words<Precision>(kPanelWidth);
  static constexpr Index kGroupWords = kPanelsTogether * kPanelWords;

  // Panels side by side: (groups, H, kPanelsTogether, kPanelWords).
  void pack_weights() {
    // Row by row: the weight is then read from end to end.
    parallel(run_, groups(), size_ * kGroupWidth, [&](Index begin, Index end) {
      const Index first = begin * kPanelsTogether;
      const Index behind = std::min(end * kPanelsTogether, panels_.count());
      std::vector<Columns> columns;
      for (Index panel = first; panel < behind; ++panel) columns.push_back(panels_.at(panel));
      for (Index row = 0; row < size_; ++row)
        for (Index panel = first; panel < behind; ++panel)
          pack_panel(weight_of<Precision>(layer_.hidden_site) + row * 4 * size_, 0, 1,
                     columns[panel - first],
                     packed(panel / kPanelsTogether) + row * kGroupWords +
                         panel % kPanelsTogether * kPanelWords);
    });
  }

  Index panels_in(Index group) const {
    return std::min(kPanelsTogether, panels_.count() - group * kPanelsTogether);
  }

  float* packed(Index group) const { return packed_.data() + group * size_ * kGroupWords; }

  void one_stripe(Stripe stripe, Index position, Index t, Kept kept) const {
    const Index rows = steps_.sizes[t], width = round_up(stripe.count, kPanelWidth);
    float* sums = scratch<0>(rows * width);
    for (Index gate = 0; gate < 4; ++gate) {
      multiply_few_rows(weight_of<Float32>(layer_.hidden_site) + gate * size_ + stripe.first,
                        4 * size_, stripe.count, kept, columns_.of_step(position), rows, sums);
      for (Index unit = 0; unit < stripe.count; unit += kLanes)
        for (Index row = 0; row < rows; ++row) {
          float* to = gates_.of_gate(gate, stripe.first + unit, steps_.starts[t] + row);
          store(to, load(to) + load(sums + row * width + unit));
        }
    }
    for (Index unit = 0; unit < stripe.count; unit += kLanes)
      for (Index b = 0; b < rows; b += kLanes)
        pointwise((stripe.first + unit) / kLanes, position, t, b);
  }

  void one_group(Index group, Index position, Index t, Kept kept) const {
    multiply_group(group, position, t, kept);
    const Index first = group * kPanelsTogether;
    for (Index panel = first; panel < first + panels_in(group); ++panel)
      for (Index b = 0; b < steps_.sizes[t]; b += kLanes) pointwise(panel, position, t, b);
  }

  void multiply_group(Index group, Index position, Index t, Kept kept) const {
    if constexpr (kInTiles)
      return multiply_group_in_tiles(group, position, t, kept);
    else
      multiply_group_in_vectors(group, position, t, kept);
  }

  void multiply_group_in_tiles(Index group, Index position, Index t, Kept kept) const {
    const Index first = group * kPanelsTogether, count = panels_in(group);
    PanelProduct<PackedPairs> products[kPanelsTogether];
    for (Index i = 0; i < count; ++i) {
      const Target sums = gates_.at(first + i, steps_.starts[t]);
      products[i] = {packed_rows<Precision>(packed(group) + i * kPanelWords, kGroupWords,
                                            kept.neurons, kept.count),
                     {sums.data, sums.row, sums.vector}, sums};
    }
    multiply_panels_in_tiles(count, products, steps_.sizes[t], kept.count,
                             columns_.of_step(position),
                             group + 1 < groups() ? size_ * kGroupWords : 0);
  }

  void multiply_group_in_vectors(Index group, Index position, Index t, Kept kept) const {
    const auto rows_of = [&](Index of, Index i) {
      return packed_rows<Precision>(packed(of) + i * kPanelWords, kGroupWords, kept.neurons,
                                    kept.count);
    };
    if constexpr (Precision::kPerWord == 1)
      if (steps_.sizes[t] <= kTileRows)
        return multiply(
            group, t, position, kept, [&](Index i) { return StreamedRows{rows_of(group, i)}; },
            [](const Next&) { return NothingAhead(); });
    multiply(
        group, t, position, kept, [&](Index i) { return rows_of(group, i); },
        [&](const Next& next) {
          if (next.left > 0) return RowsAhead(rows_of(group, 0).from(next.first));
          // Behind the last group nothing comes, and what is asked for is there.
          return RowsAhead(rows_of(std::min(group + 1, groups() - 1), 0));
        });
  }

  template <typename WeightsOf, typename AheadOf>
  void multiply(Index group, Index t, Index position, Kept kept, const WeightsOf& weights_of,
                const AheadOf& ahead_of) const {
    const Index first = group * kPanelsTogether, count = panels_in(group);
    PanelProduct<decltype(weights_of(0))> products[kPanelsTogether];
    for (Index i = 0; i < count; ++i) {
      const Target sums = gates_.at(first + i, steps_.starts[t]);
      products[i] = {weights_of(i), {sums.data, sums.row, sums.vector}, sums};
    }
    multiply_panels(count, products, steps_.sizes[t], words<Precision>(kept.count),
                    columns_.of_step(position), ahead_of);
  }

  // Gates, cell and output of the panel's units in sequences [b, b + kLanes). All gates come first:
  // within a row each result waits for the one before, so a processor needs several rows at a time.
  void pointwise(Index panel, Index position, Index t, Index b) const {
    const Index unit = panel * kLanes, live = std::min<Index>(kLanes, size_ - unit);
    const Index rows = std::min<Index>(kLanes, steps_.sizes[t] - b);
    const Index first = steps_.starts[t] + b;
    const bool last = position + 1 == steps_.count;
    const Index next = last ? t : step_in_order(steps_, position + 1);
    for (Index row = first; row < first + rows; ++row) {
      ask(panel + kPanelsTogether, position, row);
      activate(gates_.at(panel, row).data);
    }
    Vector hidden[kLanes];
    for (Index i = rows; i < kLanes; ++i) hidden[i] = Vector{};
    for (Index i = 0; i < rows; ++i) {
      const Index before = row_before(steps_, position, b + i);
      const Vector state = before >= 0 ? load(cells_.at(panel, before))
                                       : load_first(layer_.c_0 + (b + i) * size_ + unit, live);
      const float* gates = gates_.at(panel, first + i).data;
      const Vector c = load(gates + kLanes) * state + load(gates) * load(gates + 2 * kLanes);
      store(cells_.at(panel, first + i), c);
      const Vector h = load(gates + 3 * kLanes) * hyperbolic_tangent(c);
      store_first(layer_.output + (first + i) * size_ + unit, h, live);
      hidden[i] = h * factors_at(layer_.hidden_site, next, b + i).vector(unit, live);
    }
    if (!last) columns_.write(position + 1, panel, b, hidden);
  }

  // What a panel's pointwise part reads and writes was last touched a step or more ago.
  SDROP_INLINE void ask(Index panel, Index position, Index row) const {
    const Index t = step_in_order(steps_, position);
    gates_.ask(panel, row);
    prefetch(cells_.at(panel, row_before(steps_, position, row - steps_.starts[t])));
    prefetch(cells_.at(panel, row));
    prefetch(layer_.output + row * size_ + panel * kLanes);
  }

  SDROP_INLINE static void activate(float* gates) {
    store(gates, sigmoid(load(gates)));
    store(gates + kLanes, sigmoid(load(gates + kLanes)));
    store(gates + 2 * kLanes, hyperbolic_tangent(load(gates + 2 * kLanes)));
    store(gates + 3 * kLanes, sigmoid(load(gates + 3 * kLanes)));
  }

  // h_n and c_n: each sequence's last step. What no panel owns of the saved tensors is cleared:
  // they hold no chance values.
  void finish() const {
    for (Index b = 0; b < steps_.batch; ++b) {
      Index last = steps_.count;  // one behind its last step in time
      while (steps_.sizes[last - 1] <= b) --last;
      const Index row = steps_.starts[steps_.reverse ? 0 : last - 1] + b;
      std::copy_n(layer_.output + row * size_, size_, layer_.h_n + b * size_);
      for (Index panel = 0; panel < panels_.count(); ++panel)
        store_first(layer_.c_n + b * size_ + panel * kLanes, load(cells_.at(panel, row)),
                    std::min<Index>(kLanes, size_ - panel * kLanes));
    }
    const Index owned = panels_.count() * kLanes, all = padded_hidden_size(size_);
    std::fill_n(layer_.gates + 4 * owned * steps_.rows, 4 * (all - owned) * steps_.rows, 0.0f);
    std::fill_n(layer_.cells + owned * steps_.rows, (all - owned) * steps_.rows, 0.0f);
  }

  const LstmForward& layer_;
  const Steps& steps_;
  ParallelFor run_;
  Index size_;
  GateRows gates_;
  CellRows cells_;
  Panels panels_;
  Hidden<Precision> columns_;
  bool few_;
  CallBuffer<4> packed_;
};

template <typename Precision>
void lstm_forward(const LstmForward& layer, ParallelFor run) {
  const Panels panels{4 * layer.hidden_size, true};
  ForwardProduct<Precision>(layer.input_site, layer.steps, panels, layer.input, run)(
      layer.bias, GateRows{layer.gates, layer.steps.rows});
  ForwardRecurrence<Precision>(layer, run)();
}

}  // namespace sdrop::SDROP_CAPABILITY
