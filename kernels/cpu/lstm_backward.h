// An LSTM layer over a whole sequence, backward.
//
// With s = o (1 - tanh(c)^2), dc_t = dc + dh_t s, and the gradients of the gates before their
// nonlinearities are dc_t, or for o dh_t, times factors of the forward pass. A step is two parallel
// loops: pointwise over units, and the data gradient over kept neurons, which needs all units. The
// gradients of the input and of the weights follow for all steps at once.
#pragma once

#include "all_rows.h"
#include "nonlinear.h"
#include "recurrence.h"

namespace sdrop::SDROP_CAPABILITY {

template <typename Precision>
class BackwardRecurrence {
 public:
  BackwardRecurrence(const LstmBackward& layer, GateRows grad_gates, ParallelFor run)
      : layer_(layer), steps_(layer.steps), run_(run), size_(layer.hidden_size),
        weight_row_(words<Precision>(4 * size_)),
        gates_{const_cast<float*>(layer.gates), steps_.rows},
        cells_{const_cast<float*>(layer.cells), steps_.rows}, grad_gates_(grad_gates),
        grad_columns_(gradients_size(weight_row_, steps_.batch)),
        sums_(transposed_size(most_kept(layer.hidden_site), steps_.batch)) {
    copy_or_clear(layer.grad_h_n, layer.grad_h_0);
    copy_or_clear(layer.grad_c_n, layer.grad_c_0);
  }

  // Leaves the gradients of the gates, of h_0 and of c_0.
  void operator()() {
    for (Index position = steps_.count - 1; position >= 0; --position) {
      const Index t = step_in_order(steps_, position), rows = steps_.sizes[t];
      parallel(run_, divide_up(size_, kLanes), rows * kLanes * 64, [&](Index begin, Index end) {
        for (Index panel = begin; panel < end; ++panel)
          for (Index b = 0; b < rows; b += kLanes) pointwise(position, t, panel, b);
      });
      const Kept kept = kept_at(layer_.hidden_site, t);
      parallel(run_, kept.count, rows * 4 * size_,
               [&](Index begin, Index end) { hidden_gradient(t, kept, begin, end); });
    }
  }

 private:
  void copy_or_clear(const float* from, float* to) const {
    const Index count = steps_.batch * size_;
    if (from)
      std::copy_n(from, count, to);
    else
      std::fill_n(to, count, 0.0f);
  }

  TransposedGradients<Precision> transposed(Index t) const {
    return {grad_columns_.data(), steps_.sizes[t], weight_row_};
  }

  // The gates' gradients of a panel's units in sequences [b, b + kLanes), and their transposes.
  void pointwise(Index position, Index t, Index panel, Index b) const {
    const Index unit = panel * kLanes, live = std::min<Index>(kLanes, size_ - unit);
    const Index rows = std::min<Index>(kLanes, steps_.sizes[t] - b);
    for (Index i = 0; i < rows; ++i) one_row(position, t, panel, b + i, live);
    const float* from = grad_gates_.at(panel, steps_.starts[t] + b).data;
    const GradientRows<Precision> to = transposed(t).rows_at(b);
    for (Index gate = 0; gate < 4; ++gate)
      to.write(gate * size_ + unit, from + gate * kLanes, kPanelWidth, 0, live);
  }

  SDROP_INLINE void one_row(Index position, Index t, Index panel, Index b, Index live) const {
    const Index row = steps_.starts[t] + b, before = row_before(steps_, position, b);
    const Index place = b * size_ + panel * kLanes;
    ask(panel + 1, row, before);
    const float* gates = gates_.at(panel, row).data;
    const Vector i = load(gates), f = load(gates + kLanes);
    const Vector g = load(gates + 2 * kLanes), o = load(gates + 3 * kLanes);
    const Vector tanh_c = hyperbolic_tangent(load(cells_.at(panel, row)));
    const Vector c_before =
        before >= 0 ? load(cells_.at(panel, before)) : load_first(layer_.c_0 + place, live);
    float* grad_h = layer_.grad_h_0 + place;
    float* grad_c = layer_.grad_c_0 + place;
    const Vector dh = load_first(layer_.grad_output + row * size_ + panel * kLanes, live) +
                      load_first(grad_h, live);
    const Vector dc = load_first(grad_c, live) + dh * o * (1.0f - tanh_c * tanh_c);
    float* grads = grad_gates_.at(panel, row).data;
    store(grads, dc * g * i * (1.0f - i));
    store(grads + kLanes, dc * c_before * f * (1.0f - f));
    store(grads + 2 * kLanes, dc * i * (1.0f - g * g));
    store(grads + 3 * kLanes, dh * tanh_c * o * (1.0f - o));
    store_first(grad_c, dc * f, live);
    store_first(grad_h, Vector{}, live);  // what the step did not keep has no gradient
  }

  // What the next panel's pointwise part reads and writes.
  SDROP_INLINE void ask(Index panel, Index row, Index before) const {
    gates_.ask(panel, row);
    grad_gates_.ask(panel, row);
    prefetch(cells_.at(panel, row));
    prefetch(cells_.at(panel, before));
    prefetch(layer_.grad_output + row * size_ + (panel + 1) * kLanes);
  }

  // dh_{t-1} of kept neurons [begin, end).
  void hidden_gradient(Index t, Kept kept, Index begin, Index end) const {
    const Index rows = steps_.sizes[t];
    const auto blocks = column_blocks(weight_row_, rows);
    for (const ColumnBlock& block : blocks)
      data_gradient<Precision>(layer_.hidden_site, weight_row_, block, kept, begin, end,
                               transposed(t), block.first, &block != &blocks.front(), sums_.data());
    for (Index b = 0; b < rows; ++b) {
      const Factors factors = factors_at(layer_.hidden_site, t, b);
      const Chunk chunk = chunk_of(b, rows);
      const float* column = sums_.data() + chunk.offset(kept.count) + b - chunk.first_row;
      for (Index k = begin; k < end; ++k)
        layer_.grad_h_0[b * size_ + kept.neurons[k]] =
            column[k * chunk.pitch()] * factors.at(kept.neurons[k]);
    }
  }

  const LstmBackward& layer_;
  const Steps& steps_;
  ParallelFor run_;
  Index size_;
  Index weight_row_;  // words of a row of the weights
  GateRows gates_;
  CellRows cells_;
  GateRows grad_gates_;
  Buffer grad_columns_, sums_;
};

// The gradients of a segment and of a block of columns, (rows, 4H) in panels, to chunks of
// transposed ones. A block may begin and end within a panel.
template <typename Precision>
void transpose_gates(GateRows grads, Index hidden_size, const Segment& segment,
                            ColumnBlock block, float* to) {
  const TransposedGradients<Precision> transposed{to, segment.rows, block.count};
  const Index begin = block.first * Precision::kPerWord, count = block.count * Precision::kPerWord;
  for (Index first = 0; first < segment.rows; first += kLanes) {
    const GradientRows<Precision> rows = transposed.rows_at(first);
    Index gate = begin / hidden_size, unit = begin % hidden_size;
    for (Index column = 0; column < count;) {
      const Index lane = unit % kLanes;
      const Index live = std::min({kLanes - lane, hidden_size - unit, count - column});
      const float* from = grads.at(unit / kLanes, segment.first_row + first).data + gate * kLanes;
      rows.write(column, from, kPanelWidth, lane, live);
      column += live;
      unit += live;
      if (unit == hidden_size) ++gate, unit = 0;
    }
  }
}

template <typename Precision>
void lstm_backward(const LstmBackward& layer, ParallelFor run) {
  const Index size = layer.hidden_size;
  const Steps& steps = layer.steps;
  const Panels panels{4 * size, true};
  const CallBuffer<7> buffer(steps.rows * panels.count() * kPanelWidth);
  const GateRows grads{buffer.data(), steps.rows};
  BackwardRecurrence<Precision>(layer, grads, run)();
  if (layer.grad_input)
    all_data_gradients<Precision>(
        layer.input_site, steps, 4 * size,
        [&](const Segment& segment, ColumnBlock block, float* to) {
          transpose_gates<Precision>(grads, size, segment, block, to);
        },
        layer.grad_input, run);
  const auto grads_at = [&](Index panel, const Segment& segment) {
    return grads.at(panel, segment.first_row).data;
  };
  all_weight_gradients<Precision>(
      layer.input_site, steps, panels,
      [&](Index row) { return layer.input + row * layer.input_site.size; }, grads_at,
      layer.grad_weight_ih, layer.grad_bias, run);
  std::vector<const float*> hidden(steps.rows);
  for (Index position = 0; position < steps.count; ++position) {
    const Index t = step_in_order(steps, position);
    for (Index b = 0; b < steps.sizes[t]; ++b) {
      const Index before = row_before(steps, position, b);
      hidden[steps.starts[t] + b] = before >= 0 ? layer.output + before * size
                                                : layer.h_0 + b * size;
    }
  }
  all_weight_gradients<Precision>(
      layer.hidden_site, steps, panels, [&](Index row) { return hidden[row]; }, grads_at,
      layer.grad_weight_hh, nullptr, run);
}

}  // namespace sdrop::SDROP_CAPABILITY
