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

class BackwardRecurrence {
 public:
  BackwardRecurrence(const LstmBackward& layer, float* grad_gates, ParallelFor run)
      : layer_(layer), run_(run), size_(layer.hidden_size), padded_(padded_hidden_size(size_)),
        grad_gates_(grad_gates),
        blocks_(column_blocks({4 * size_, true}, padded_)),
        compact_row_(round_up(most_kept(layer.hidden_site), kGroup)),
        grad_columns_(4 * padded_ * round_up(layer.steps.batch, kChunk)), compact_(layer.steps.batch * compact_row_),
        grad_cell_(layer.steps.batch * padded_) {
    grad_cell_.zero();
    std::copy_n(layer.grad_h_n, layer.steps.batch * size_, layer.grad_h_0);
    for (Index b = 0; b < layer.steps.batch; ++b)
      std::copy_n(layer.grad_c_n + b * size_, size_, grad_cell_.data() + b * padded_);
  }

  // Leaves the gradients of the gates (rows, 4, padded H), of h_0 and of c_0.
  void operator()() {
    const Steps& steps = layer_.steps;
    for (Index position = steps.count - 1; position >= 0; --position) {
      const Index t = step_in_order(steps, position), size = steps.sizes[t];
      parallel(run_, divide_up(size_, kLanes), size * kLanes * 64, [&](Index begin, Index end) {
        for (Index panel = begin; panel < end; ++panel)
          for (Index b = 0; b < size; b += kLanes) pointwise(position, t, panel * kLanes, b);
      });
      const Kept kept = kept_at(layer_.hidden_site, t);
      parallel(run_, divide_up(kept.count, kGroup), size * kGroup * 4 * size_,
               [&](Index begin, Index end) { hidden_gradient(t, kept, begin, end); });
    }
    for (Index b = 0; b < steps.batch; ++b)
      std::copy_n(grad_cell_.data() + b * padded_, size_, layer_.grad_c_0 + b * size_);
  }

 private:
  // The gates' gradients of kLanes units in sequences [b, b + kLanes), and their transposes.
  void pointwise(Index position, Index t, Index unit, Index b) const {
    const Index rows = std::min<Index>(kLanes, layer_.steps.sizes[t] - b);
    Vector grads[4][kLanes] = {};
    for (Index i = 0; i < rows; ++i) one_row(position, t, unit, b + i, i, grads);
    for (Index gate = 0; gate < 4; ++gate) {
      for (Index i = 0; i < rows; ++i)
        store(grad_gates_ + ((layer_.steps.starts[t] + b + i) * 4 + gate) * padded_ + unit,
              grads[gate][i]);
      transpose(grads[gate]);
      float* to = grad_columns_.data() + chunked(b, 4 * padded_) + (gate * padded_ + unit) * kChunk;
      for (Index j = 0; j < kLanes; ++j) store(to + j * kChunk, grads[gate][j]);
    }
  }

  SDROP_INLINE void one_row(Index position, Index t, Index unit, Index b, Index lane,
                            Vector (*grads)[kLanes]) const {
    const Index row = layer_.steps.starts[t] + b, live = std::min<Index>(kLanes, size_ - unit);
    const float* gates = layer_.gates + row * 4 * padded_ + unit;
    const Vector i = load(gates), f = load(gates + padded_);
    const Vector g = load(gates + 2 * padded_), o = load(gates + 3 * padded_);
    const Vector tanh_c = hyperbolic_tangent(load(layer_.cells + row * padded_ + unit));
    const Vector c_before = load_first(cells().before(position, b) + unit, live);
    float* grad_h = layer_.grad_h_0 + b * size_ + unit;
    float* grad_c = grad_cell_.data() + b * padded_ + unit;
    const Vector dh =
        load_first(layer_.grad_output + row * size_ + unit, live) + load_first(grad_h, live);
    const Vector dc = load(grad_c) + dh * o * (1.0f - tanh_c * tanh_c);
    grads[0][lane] = dc * g * i * (1.0f - i);
    grads[1][lane] = dc * c_before * f * (1.0f - f);
    grads[2][lane] = dc * i * (1.0f - g * g);
    grads[3][lane] = dh * tanh_c * o * (1.0f - o);
    store(grad_c, dc * f);
    store_first(grad_h, Vector{}, live);  // what the step did not keep has no gradient
  }

  // dh_{t-1} of groups [begin, end) of the kept neurons.
  void hidden_gradient(Index t, Kept kept, Index begin, Index end) const {
    const Index rows = layer_.steps.sizes[t];
    for (const ColumnBlock& block : blocks_)
      data_gradient(layer_.hidden_site, 4 * size_, block, kept, begin, end, rows,
                    grad_columns_.data() + block.grad_column * kChunk, 4 * padded_ * kChunk, &block != &blocks_.front(),
                    compact_.data(), compact_row_);
    const Index last = std::min(end * kGroup, kept.count);
    for (Index b = 0; b < rows; ++b) {
      const Factors factors = factors_at(layer_.hidden_site, t, b);
      for (Index j = begin * kGroup; j < last; ++j)
        layer_.grad_h_0[b * size_ + kept.neurons[j]] =
            compact_.data()[b * compact_row_ + j] * factors.at(kept.neurons[j]);
    }
  }

  States cells() const { return {layer_.steps, layer_.cells, padded_, layer_.c_0, size_}; }

  const LstmBackward& layer_;
  ParallelFor run_;
  Index size_, padded_;
  float* grad_gates_;
  std::vector<ColumnBlock> blocks_;
  Index compact_row_;
  Buffer grad_columns_, compact_, grad_cell_;
};

inline void lstm_backward(const LstmBackward& layer, ParallelFor run) {
  const Index size = layer.hidden_size, padded = padded_hidden_size(size);
  const Steps& steps = layer.steps;
  const Panels panels{4 * size, true};
  Buffer grad_gates(steps.rows * 4 * padded);
  BackwardRecurrence(layer, grad_gates.data(), run)();
  const Rows grad{grad_gates.data(), 4 * padded, padded};
  if (layer.grad_input)
    all_data_gradients(layer.input_site, steps, panels, grad, layer.grad_input, run);
  all_weight_gradients(
      layer.input_site, steps, panels, grad,
      [&](Index row) { return layer.input + row * layer.input_site.size; }, layer.grad_weight_ih,
      layer.grad_bias, run);
  std::vector<const float*> hidden(steps.rows);
  const States states{steps, layer.output, size, layer.h_0, size};
  for (Index position = 0; position < steps.count; ++position) {
    const Index t = step_in_order(steps, position);
    for (Index b = 0; b < steps.sizes[t]; ++b)
      hidden[steps.starts[t] + b] = states.before(position, b);
  }
  all_weight_gradients(
      layer.hidden_site, steps, panels, grad, [&](Index row) { return hidden[row]; },
      layer.grad_weight_hh, nullptr, run);
}

}  // namespace sdrop::SDROP_CAPABILITY
