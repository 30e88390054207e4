// What happens to one unit of one sequence between two products: equations of Hochreiter &
// Schmidhuber 1997 with forget gates (Gers et al. 2000), gates in torch's order.
#pragma once

#include "device.cuh"

namespace sdrop {

// x = input gate, y = forget gate, z = cell candidate, w = output gate.
using Gates = float4;

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

__device__ __forceinline__ Gates activate(const Gates& before) {
  return make_float4(sigmoid(before.x), sigmoid(before.y), tanhf(before.z), sigmoid(before.w));
}

__device__ __forceinline__ float next_cell(const Gates& gates, float cell_before) {
  return fmaf(gates.y, cell_before, gates.x * gates.z);
}

__device__ __forceinline__ float hidden_of(const Gates& gates, float cell) {
  return gates.w * tanhf(cell);
}

struct PointwiseGradient {
  Gates gates;        // of the gates before their nonlinearities
  float cell_before;  // of c_{t-1}
};

// The gradients of h_t and, through later steps, of c_t go back to what step t began with.
__device__ __forceinline__ PointwiseGradient differentiate(const Gates& gates, float cell_before,
                                                           float cell, float grad_hidden,
                                                           float grad_cell) {
  const float tanh_cell = tanhf(cell);
  const float grad = fmaf(grad_hidden * gates.w, 1.0f - tanh_cell * tanh_cell, grad_cell);
  const Gates found = make_float4(grad * gates.z * gates.x * (1.0f - gates.x),
                                  grad * cell_before * gates.y * (1.0f - gates.y),
                                  grad * gates.x * (1.0f - gates.z * gates.z),
                                  grad_hidden * tanh_cell * gates.w * (1.0f - gates.w));
  return {found, grad * gates.y};
}

}  // namespace sdrop
