// A linear layer with the dropout in front of it.
#pragma once

#include "all_rows.h"

namespace sdrop::SDROP_CAPABILITY {

inline void linear_forward(const LinearForward& layer, ParallelFor run) {
  const Panels panels{layer.columns, false};
  const ForwardProduct product(layer.site, layer.steps, panels, layer.input, run);
  product(layer.bias, {layer.output, layer.columns, 0});
}

inline void linear_backward(const LinearBackward& layer, ParallelFor run) {
  const Panels panels{layer.columns, false};
  const Rows grad{const_cast<float*>(layer.grad_output), layer.columns, 0};
  if (layer.grad_input)
    all_data_gradients(layer.site, layer.steps, panels, grad, layer.grad_input, run);
  all_weight_gradients(
      layer.site, layer.steps, panels, grad,
      [&](Index row) { return layer.input + row * layer.site.size; }, layer.grad_weight,
      layer.grad_bias, run);
}

}  // namespace sdrop::SDROP_CAPABILITY
