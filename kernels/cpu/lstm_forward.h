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

// Fewer steps than this read the recurrent weights where they are.
constexpr Index kStepsWorthPacking = 4;

class ForwardRecurrence {
 public:
  ForwardRecurrence(const LstmForward& layer, ParallelFor run)
      : layer_(layer), run_(run), padded_(padded_hidden_size(layer.hidden_size)),
        panels_{4 * layer.hidden_size, true}, columns_(layer.hidden_site, layer.steps.batch),
        cell_(layer.steps.batch * padded_) {
    cell_.zero();
    for (Index b = 0; b < layer.steps.batch; ++b) {
      std::copy_n(layer.c_0 + b * layer.hidden_size, layer.hidden_size,
                  cell_.data() + b * padded_);
      std::copy_n(layer.h_0 + b * layer.hidden_size, layer.hidden_size,
                  layer.h_n + b * layer.hidden_size);
    }
    pack_weights();
  }

  void operator()() {
    Index running = 0;
    for (Index position = 0; position < layer_.steps.count; ++position) {
      const Index t = step_in_order(layer_.steps, position), size = layer_.steps.sizes[t];
      if (size > running) columns_.begin_sequences(position, t, running, size, layer_.h_0);
      running = size;
      const Kept kept = kept_at(layer_.hidden_site, t);
      parallel(run_, panels_.count(), size * (kept.count + 8) * kPanelWidth,
               [&](Index begin, Index end) {
                 for (Index panel = begin; panel < end; ++panel) {
                   multiply(panel, position, t, kept);
                   for (Index b = 0; b < size; b += kLanes) pointwise(panel, position, t, b);
                 }
               });
    }
    for (Index b = 0; b < layer_.steps.batch; ++b)
      std::copy_n(cell_.data() + b * padded_, layer_.hidden_size,
                  layer_.c_n + b * layer_.hidden_size);
  }

 private:
  void pack_weights() {
    const Index size = layer_.hidden_size;
    const bool all = layer_.steps.count >= kStepsWorthPacking;
    first_packed_ = all ? 0 : size / kLanes;
    packed_.reserve((panels_.count() - first_packed_) * size * kPanelWidth);
    parallel(run_, panels_.count() - first_packed_, size * kPanelWidth,
             [&](Index begin, Index end) {
               for (Index i = begin; i < end; ++i)
                 pack_panel(layer_.hidden_site.weight, 4 * size, size,
                            panels_.at(first_packed_ + i, size),
                            packed_.data() + i * size * kPanelWidth);
             });
  }

  void multiply(Index panel, Index position, Index t, Kept kept) const {
    const Index size = layer_.hidden_size;
    float* sums = layer_.gates + layer_.steps.starts[t] * 4 * padded_ + panel * kLanes;
    const auto add = [&](auto weights) {
      multiply_panel(layer_.steps.sizes[t], kept.count, weights, columns_.of_step(position),
                     columns_.chunk_size(), {sums, 4 * padded_, padded_}, {sums, 4 * padded_, padded_});
    };
    if (panel < first_packed_)
      add(RowsInPlace{layer_.hidden_site.weight + panel * kLanes, kept.neurons, 4 * size, size});
    else
      add(PackedRows<true>{packed_.data() + (panel - first_packed_) * size * kPanelWidth,
                     kept.neurons});
  }

  // Gates, cell and output of the panel's units in sequences [b, b + kLanes).
  void pointwise(Index panel, Index position, Index t, Index b) const {
    const Index unit = panel * kLanes, size = layer_.hidden_size;
    const Index live = std::min<Index>(kLanes, size - unit);
    const Index rows = std::min<Index>(kLanes, layer_.steps.sizes[t] - b);
    const bool last = position + 1 == layer_.steps.count;
    const Index next = last ? t : step_in_order(layer_.steps, position + 1);
    Vector hidden[kLanes] = {};
    for (Index i = 0; i < rows; ++i) {
      const Index row = layer_.steps.starts[t] + b + i;
      const Vector h = one_row(row, b + i, unit);
      store_first(layer_.output + row * size + unit, h, live);
      store_first(layer_.h_n + (b + i) * size + unit, h, live);
      hidden[i] = h * factors_at(layer_.hidden_site, next, b + i).vector(unit, live);
    }
    if (last) return;
    transpose(hidden);
    float* to = columns_.of_step(position + 1) + chunked(b, size) + unit * kChunk;
    for (Index j = 0; j < live; ++j) store(to + j * kChunk, hidden[j]);
  }

  SDROP_INLINE Vector one_row(Index row, Index b, Index unit) const {
    float* gates = layer_.gates + row * 4 * padded_ + unit;
    float* state = cell_.data() + b * padded_ + unit;
    const Vector i = sigmoid(load(gates)), f = sigmoid(load(gates + padded_));
    const Vector g = hyperbolic_tangent(load(gates + 2 * padded_));
    const Vector o = sigmoid(load(gates + 3 * padded_));
    const Vector c = f * load(state) + i * g;
    store(gates, i);
    store(gates + padded_, f);
    store(gates + 2 * padded_, g);
    store(gates + 3 * padded_, o);
    store(state, c);
    store(layer_.cells + row * padded_ + unit, c);
    return o * hyperbolic_tangent(c);
  }

  const LstmForward& layer_;
  ParallelFor run_;
  Index padded_;
  Panels panels_;
  HiddenColumns columns_;
  Buffer cell_;
  Index first_packed_ = 0;
  Buffer packed_;
};

// The units that no panel owns: saved tensors hold no chance values.
inline void clear_padding(const LstmForward& layer, Index padded) {
  const Index owned = round_up(layer.hidden_size, kLanes);
  for (Index row = 0; row < layer.steps.rows; ++row) {
    std::fill(layer.cells + row * padded + owned, layer.cells + (row + 1) * padded, 0.0f);
    for (Index gate = 4 * row; gate < 4 * (row + 1); ++gate)
      std::fill(layer.gates + gate * padded + owned, layer.gates + (gate + 1) * padded, 0.0f);
  }
}

inline void lstm_forward(const LstmForward& layer, ParallelFor run) {
  const Index padded = padded_hidden_size(layer.hidden_size);
  const Panels panels{4 * layer.hidden_size, true};
  const ForwardProduct product(layer.input_site, layer.steps, panels, layer.input, run);
  product(layer.bias, {layer.gates, 4 * padded, padded});
  ForwardRecurrence(layer, run)();
  clear_padding(layer, padded);
}

}  // namespace sdrop::SDROP_CAPABILITY
